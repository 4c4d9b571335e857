package inline

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswer asks and answers in every order.
func TestAnswer(t *testing.T) {
	failed := errors.New("failed")
	synctest.Test(t, func(t *testing.T) {
		var a Answer
		for _, late := range []bool{false, true, true, false} { // one message, used again
			a.reset()
			if late {
				go func() {
					time.Sleep(time.Second)
					a.reply(failed)
				}()
			} else {
				a.reply(failed)
			}
			before := time.Now()
			if a.wait(); a.Err != failed || late != (time.Since(before) == time.Second) {
				t.Errorf("late %t: answered %v after %v", late, a.Err, time.Since(before))
			}
		}
	})
}
