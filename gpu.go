//go:build cgo

package stalloc

import (
	"errors"
	"fmt"

	"stalloc/cuda"
)

// gpu opens a real device.
func (o *Options) gpu() (Device, func() (string, error), error) {
	driver, err := cuda.Open(o.Driver)
	if err != nil {
		return nil, nil, err
	}
	dev, err := driver.Device(o.Ordinal)
	if err != nil {
		return nil, nil, err
	}
	if o.Neighbours == nil {
		return dev, nil, nil
	}
	uuid, err := dev.UUID()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("who else uses device %d cannot be asked: %w", o.Ordinal, err), dev.Close())
	}
	return dev, func() (string, error) { return o.Neighbours(uuid) }, nil
}
