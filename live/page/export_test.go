package page

// The layout, for the tests.
const (
	HeaderSize = headerSize
	DeviceSize = deviceSize
	SampleSize = sampleSize
	Version    = version
)

// Read reads a page, whosever it is.
func Read(path string) (Process, error) {
	p, _, err := read(path)
	return p, err
}
