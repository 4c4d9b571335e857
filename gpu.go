//go:build cgo

package stalloc

import (
	"errors"
	"fmt"

	"stalloc/cuda"
)

// gpu opens a real device.
func (o *Options) gpu() (Device, error) {
	driver, err := cuda.Open(o.Driver)
	if err != nil {
		return nil, err
	}
	dev, err := driver.Device(o.Ordinal)
	if err != nil || o.Share == ShareOff {
		return dev, err
	}
	if err := dev.Share(o.Share == ShareFabric); err != nil {
		return nil, errors.Join(fmt.Errorf("%s has no memory for other processes, leave Options.Share out: %w", dev.Name(), err), dev.Close())
	}
	return dev, nil
}
