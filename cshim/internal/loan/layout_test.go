package loan

import "testing"

func TestGoAndCAgree(t *testing.T) {
	if err := Check(); err != nil {
		t.Error(err)
	}
}
