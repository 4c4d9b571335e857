package actors

import "time"

// A Clock tells the time since some moment, and lets some pass.
type Clock struct {
	Now   func() time.Duration
	Sleep func(time.Duration)
}
