package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stalloc/internal/mem"
)

// A live run's log is a Chrome trace: an array, or an object with one, of events.
//
//	"ph":"C"  "device 0 memory", args allocated and idle   a point of the curves
//	"ph":"X"  "step 3", args requests and hits             a step
//	"ph":"i"  "plan 2 serves"                              something that happened
//
// Its process may have been killed while it wrote, so it may end anywhere.

// liveEvent is one of them.
type liveEvent struct {
	Name  string              `json:"name"`
	Phase string              `json:"ph"`
	At    float64             `json:"ts"` // microseconds
	Took  float64             `json:"dur"`
	TID   int                 `json:"tid"`
	Args  map[string]anything `json:"args"`
}

// anything is a value of which only numbers matter.
type anything float64

func (a *anything) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err == nil {
		*a = anything(n)
	}
	return nil
}

// Note is what a live run's log says of a moment.
type Note struct {
	Micros int64  `json:"micros"`
	Text   string `json:"text"`
	Step   string `json:"step"`
}

var memoryCounter = regexp.MustCompile(`^device (\d+) memory$`)

// isLive looks at the first bytes of a file.
func isLive(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) > 0 && (head[0] == '[' || head[0] == '{')
}

// loadLive makes a report of what a run said of itself: its curves, its steps and what
// happened. It knows no blocks.
func loadLive(path string, device int) (*Data, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l := live{device: device}
	err = eachEvent(bufio.NewReaderSize(file, 1<<16), l.event)
	if err == nil && len(l.load) == 0 && len(l.others) > 0 {
		return nil, fmt.Errorf("%s has no device %d: choose from %v with --device", path, device,
			l.others)
	}
	if err == nil && len(l.load) == 0 {
		err = errors.New("no counter of a device's memory in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; name the log that a run with STALLOC_CONF=trace:FILE has written", path, err)
	}
	return l.data(strings.TrimSuffix(filepath.Base(path), ".json")), nil
}

// eachEvent visits the events of a Chrome trace up to where it ends, or is cut.
func eachEvent(in io.Reader, visit func(*liveEvent)) error {
	d := json.NewDecoder(in)
	for {
		token, err := d.Token()
		if err != nil {
			return errors.New("no list of events in it")
		}
		if token == json.Delim('[') {
			break
		}
		if key, ok := token.(string); ok && key != "traceEvents" {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return errors.New("no list of events in it")
			}
		}
	}
	for d.More() {
		var e liveEvent
		if err := d.Decode(&e); err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) ||
				errors.Is(err, io.EOF) {
				return nil // cut
			}
			continue // an event of another kind than ours
		}
		visit(&e)
	}
	return nil
}

// live collects a log.
type live struct {
	device         int   // negative for the first there is
	others         []int // devices
	micros         []int64
	load, reserved []mem.Bytes
	spans          []liveEvent
	notes          []Note
}

func (l *live) event(e *liveEvent) {
	if of := memoryCounter.FindStringSubmatch(e.Name); e.Phase == "C" && of != nil {
		number, err := strconv.Atoi(of[1])
		if err != nil || l.device >= 0 && number != l.device {
			if err == nil && !slices.Contains(l.others, number) {
				l.others = append(l.others, number)
			}
			return
		}
		l.device = number
		load := max(mem.Bytes(e.Args["allocated"]), 0)
		now := int64(e.At)
		if n := len(l.micros); n > 0 {
			now = max(now, l.micros[n-1])
		}
		l.micros = append(l.micros, now)
		l.load = append(l.load, load)
		l.reserved = append(l.reserved, load+max(mem.Bytes(e.Args["idle"]), 0))
		return
	}
	if l.device >= 0 && e.TID != l.device {
		return
	}
	switch {
	case e.Phase == "X" && strings.HasPrefix(e.Name, "step "):
		l.spans = append(l.spans, *e)
	case e.Phase == "i":
		l.notes = append(l.notes, Note{Micros: int64(e.At), Text: e.Name})
	}
}

func (l *live) data(name string) *Data {
	first, n := l.micros[0], len(l.micros)
	at := func(micros float64) int {
		i, _ := slices.BinarySearch(l.micros, int64(micros))
		return min(i, n-1)
	}
	d := &Data{Name: name, Header: fmt.Sprintf("a live run, device %d", l.device), Kind: Live,
		Events: n}
	a := Allocator{Name: "stalloc"}
	peak := mem.Bytes(0) // which the curve, told of now and then, may miss
	for _, span := range l.spans {
		d.Steps = append(d.Steps, Step{Name: span.Name, Begin: at(span.At),
			End: at(span.At+span.Took) + 1})
		a.Requests += int64(span.Args["requests"])
		a.Hits += int64(span.Args["hits"])
		peak = max(peak, mem.Bytes(span.Args["peak_allocated"]))
	}
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.Begin - b.Begin })
	if len(d.Steps) == 0 || d.Steps[0].Begin > 0 {
		end := n
		if len(d.Steps) > 0 {
			end = d.Steps[0].Begin
		}
		d.Steps = slices.Insert(d.Steps, 0, Step{Name: setUp, End: end})
	}
	b := &ledger{load: l.load, steps: d.Steps}
	for i := range l.micros {
		b.micros = append(b.micros, l.micros[i]-first)
		a.Reserved = max(a.Reserved, l.reserved[i])
		if l.load[i] > l.load[b.peak] {
			b.peak = i
		}
	}
	d.Peak = Peak{Event: b.peak, Step: b.stepAt(b.peak), Load: max(l.load[b.peak], peak),
		Micros: b.micros[b.peak]}
	if a.Reserved > 0 {
		a.Fragmentation = 1 - float64(d.Peak.Load)/float64(a.Reserved)
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		s.Peak = slices.Max(l.load[s.Begin:max(s.End, s.Begin+1)])
	}
	for _, note := range l.notes {
		note.Step = d.Steps[b.stepAt(at(float64(note.Micros)))].Name
		note.Micros -= first
		d.Notes = append(d.Notes, note)
	}
	d.Allocators = []Allocator{a}
	d.Curve = b.curve([]*run{{name: a.Name, reserved: l.reserved}})
	d.Window = Window{End: n, Maps: make([]Map, 1)}
	for _, micros := range b.micros {
		d.Window.Micros = append(d.Window.Micros, int(micros))
	}
	return d
}
