package page

// The layout, for the tests.
const (
	HeaderSize = headerSize
	DeviceSize = deviceSize
	SampleSize = sampleSize
	Version    = version
)
