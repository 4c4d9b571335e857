package main

import (
	"testing"

	"stalloc/actors"
	"stalloc/actors/hosttest"
)

func TestHost(t *testing.T) {
	hosttest.Run(t, func() actors.Host { return looseHost() })
}
