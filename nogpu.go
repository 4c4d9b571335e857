//go:build !cgo

package stalloc

import "errors"

// gpu refuses: the driver is a C library.
func (o *Options) gpu() (Device, error) {
	return nil, errors.New("this program was built without cgo and cannot open a GPU: build it with CGO_ENABLED=1, or set Options.Simulated or Options.Device")
}
