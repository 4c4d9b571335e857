// Package page reads what running processes tell of their memory: pages in /dev/shm that
// libstalloc writes at step boundaries (cshim/lib/page.h has the layout and its rules).
//
//	processes, err := page.List(page.Folder)
//	for _, d := range processes[0].Devices { fmt.Println(d.Now.Allocated, d.Now.Reserved) }
//
// Reading costs the process nothing and needs nothing of it: no signal, no lock, no answer.
// A page is another program's bytes, in a folder where every user may make files, so nothing
// in it is trusted: what makes no sense is none, what is no file is not waited for, and of a
// process only that user's page counts who runs it.
package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"syscall"
	"time"
)

// Folder is where the pages are.
const Folder = "/dev/shm"

// Stats are the counters of a device, in the order and with the names of struct
// stalloc_stats, which says what they mean.
type Stats struct {
	Requests       uint64 `json:"requests"`
	Hits           uint64 `json:"hits"`
	Misses         uint64 `json:"misses"`
	Steps          uint64 `json:"steps"`
	PlanGeneration uint64 `json:"plan_generation"`
	Allocated      uint64 `json:"allocated"`
	PeakAllocated  uint64 `json:"peak_allocated"`
	Requested      uint64 `json:"requested"`
	PeakRequested  uint64 `json:"peak_requested"`
	Active         uint64 `json:"active"`
	PeakActive     uint64 `json:"peak_active"`
	Reserved       uint64 `json:"reserved"`
	PeakReserved   uint64 `json:"peak_reserved"`
	AllocatedTotal uint64 `json:"allocated_total"`
	FreedTotal     uint64 `json:"freed_total"`
	Blocks         uint64 `json:"blocks"`
	PeakBlocks     uint64 `json:"peak_blocks"`
	BlocksTotal    uint64 `json:"blocks_total"`
	DriverCalls    uint64 `json:"driver_calls"`
	DriverNS       uint64 `json:"driver_ns"`
	OOMs           uint64 `json:"ooms"`
	Retries        uint64 `json:"retries"`
	LostEvents     uint64 `json:"lost_events"`
	Fallback       uint64 `json:"fallback"`

	NativePeakReserved uint64 `json:"native_peak_reserved"`
	NativeSteps        uint64 `json:"native_steps"`
	NativeOOMs         uint64 `json:"native_ooms"`
	Asleep             uint64 `json:"asleep"`
	Backup             uint64 `json:"backup"`
	Waits              uint64 `json:"waits"`
	WaitNS             uint64 `json:"wait_ns"`
	Lent               uint64 `json:"lent"`
}

// Sample are a device's counters at a moment; At is zero where there is none.
type Sample struct {
	At time.Time
	Stats
}

// Device is what the page tells of a device. Before lies a second or two before Now, so
// that one look tells rates.
type Device struct {
	Ordinal     int
	Now, Before Sample
}

// Process is a page.
type Process struct {
	PID     int
	Start   uint64 // as in /proc/<pid>/stat
	Path    string
	Devices []Device // those that have been used
	space   uint64   // of process numbers
}

// The layout, as in page.h.
const (
	version    = 1
	mostOf     = 1 << 10 // devices or counters: more is no page of ours
	headerSize = 8 + 4 + 4 + 8 + 8 + 4 + 4
	room       = 48 // counters, of which the page may tell fewer
	sampleSize = 8 + 8*room
	deviceSize = 8 + 2*sampleSize
)

var errNoPage = errors.New("no page of stalloc's")

// read reads a page, and returns whose file it is.
func read(path string) (p Process, owner uint32, err error) {
	// The open of a FIFO waits for a writer, unless it is told not to.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return p, 0, err
	}
	defer file.Close()
	at, err := file.Stat()
	if err != nil || !at.Mode().IsRegular() {
		return p, 0, fmt.Errorf("%s: %w", path, errors.Join(err, errNoPage))
	}
	p, err = parse(file, path)
	return p, at.Sys().(*syscall.Stat_t).Uid, err
}

func parse(file io.ReaderAt, path string) (Process, error) {
	p := Process{Path: path}
	header := make([]byte, headerSize)
	if _, err := file.ReadAt(header, 0); err != nil || string(header[:8]) != "stalloc\x00" {
		return p, fmt.Errorf("%s: %w", path, errNoPage)
	}
	if v := binary.NativeEndian.Uint32(header[8:]); v != version {
		return p, fmt.Errorf("%s: a page of version %d, this program reads version %d", path, v,
			version)
	}
	p.PID = int(binary.NativeEndian.Uint32(header[12:]))
	p.Start = binary.NativeEndian.Uint64(header[16:])
	p.space = binary.NativeEndian.Uint64(header[24:])
	devices, counters := binary.NativeEndian.Uint32(header[32:]),
		binary.NativeEndian.Uint32(header[36:])
	if devices > mostOf || counters > room {
		return p, fmt.Errorf("%s: %w", path, errNoPage)
	}
	for i := range int(devices) {
		d, ok, err := readDevice(file, i, int(counters))
		if err != nil {
			return p, fmt.Errorf("%s: %w", path, err)
		}
		if ok {
			p.Devices = append(p.Devices, d)
		}
	}
	return p, nil
}

// attempts bounds how often a device is read anew because it was being written, which
// takes less than a microsecond. A writer that was ended meanwhile never ends writing.
const attempts = 100

// readDevice reads what is told of a device; not ok if that is nothing.
func readDevice(file io.ReaderAt, ordinal, counters int) (Device, bool, error) {
	at := int64(headerSize + ordinal*deviceSize)
	first, body, again := make([]byte, 8), make([]byte, 2*sampleSize), make([]byte, 8)
	for range attempts {
		// Three calls of the system, so that none is done before the last one is.
		for _, part := range []struct {
			into []byte
			at   int64
		}{{first, at}, {body, at + 8}, {again, at}} {
			if _, err := file.ReadAt(part.into, part.at); err != nil {
				return Device{}, false, err
			}
		}
		sequence := binary.NativeEndian.Uint64(first)
		if sequence == 0 {
			return Device{}, false, nil
		}
		if sequence%2 == 0 && sequence == binary.NativeEndian.Uint64(again) {
			return Device{Ordinal: ordinal, Now: sample(body[:sampleSize], counters),
				Before: sample(body[sampleSize:], counters)}, true, nil
		}
	}
	return Device{}, false, nil
}

// sample decodes the counters that a page tells, in the order of the fields.
func sample(from []byte, counters int) (s Sample) {
	at := binary.NativeEndian.Uint64(from)
	if at == 0 {
		return s
	}
	s.At = time.Unix(0, int64(at))
	fields := reflect.ValueOf(&s.Stats).Elem()
	for i := range min(counters, fields.NumField()) {
		fields.Field(i).SetUint(binary.NativeEndian.Uint64(from[8+8*i:]))
	}
	return s
}

// name is what the file of a process's page is called.
func name(pid int, start uint64) string { return fmt.Sprintf("stalloc-%d-%d", pid, start) }
