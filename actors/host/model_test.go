package host_test

import (
	"testing"

	"stalloc/actors/host"
	"stalloc/actors/host/hosttest"
)

func TestModel(t *testing.T) {
	hosttest.Run(t, func() host.Host { return host.NewModel() })
}
