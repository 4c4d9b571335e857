package actors_test

import (
	"testing"

	"stalloc/actors"
	"stalloc/actors/hosttest"
)

func TestGoHost(t *testing.T) {
	hosttest.Run(t, func() actors.Host { return actors.NewGoHost() })
}
