//go:build cgo

package stalloc

import "stalloc/cuda"

// gpu opens a real device.
func (o *Options) gpu() (Device, error) {
	driver, err := cuda.Open(o.Driver)
	if err != nil {
		return nil, err
	}
	return driver.Device(o.Ordinal)
}
