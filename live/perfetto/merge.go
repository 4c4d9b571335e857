package perfetto

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// Merge writes a trace of torch.profiler with our events in it, on one time axis. Both name
// the moment that their times begin at. The profiler's trace is read twice, and copied as it
// is: it may be large, so it is never held in memory, and nothing in it is lost.
func Merge(out io.Writer, profiler io.ReadSeeker, ours io.Reader) error {
	base, err := profilerBase(profiler)
	if err != nil {
		return err
	}
	if _, err := profiler.Seek(0, io.SeekStart); err != nil {
		return err
	}
	events, err := readEvents(ours)
	if err != nil {
		return err
	}
	in, w := bufio.NewReaderSize(profiler, 1<<16), bufio.NewWriterSize(out, 1<<16)
	if err := copyThrough(w, in, listBegins); err != nil {
		return err
	}
	shift := float64(events.base-base) / 1e3
	for _, e := range events.list {
		e.At += shift
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		w.Write(line)
		w.WriteString(",\n")
	}
	// A list that was empty would now end with a comma.
	end, err := json.Marshal(event{Name: "stalloc_end", Phase: "M"})
	if err != nil {
		return err
	}
	w.Write(end)
	next, err := firstOf(in)
	if err != nil {
		return err
	}
	if next != ']' {
		w.WriteByte(',')
	}
	if _, err := io.Copy(w, in); err != nil {
		return err
	}
	return w.Flush()
}

var (
	listBegins = regexp.MustCompile(`"traceEvents"\s*:\s*\[`)
	baseTime   = regexp.MustCompile(`"baseTimeNanoseconds"\s*:\s*([0-9]+)[^0-9]`) // all digits
)

// window is how much is looked at together; what is sought is far shorter than half of it.
const window = 1 << 16

// profilerBase finds when the times of a profiler's trace begin. It stands after the events
// as often as before them. Older versions of PyTorch have none: their times are since 1970.
func profilerBase(r io.Reader) (int64, error) {
	base := int64(0)
	err := eachWindow(r, func(text []byte) bool {
		found := baseTime.FindSubmatch(text)
		if found != nil {
			base, _ = strconv.ParseInt(string(found[1]), 10, 64) // digits; one too large is none
		}
		return found != nil
	})
	return base, err
}

// eachWindow hands over parts of a stream that overlap by half, until one will do.
func eachWindow(r io.Reader, do func([]byte) bool) error {
	text, kept := make([]byte, window), 0
	for {
		n, err := io.ReadFull(r, text[kept:])
		if do(text[:kept+n]) {
			return nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(text, text[window/2:])
	}
}

// copyThrough copies up to the end of the first match.
func copyThrough(w io.Writer, in *bufio.Reader, what *regexp.Regexp) error {
	for {
		text, err := in.Peek(window)
		if at := what.FindIndex(text); at != nil {
			_, err := io.CopyN(w, in, int64(at[1]))
			return err
		}
		if err != nil {
			return fmt.Errorf("no %q in the profiler's trace: give the file that prof.export_chrome_trace has written", "traceEvents")
		}
		if _, err := io.CopyN(w, in, window/2); err != nil {
			return err
		}
	}
}

// firstOf returns the next byte that is no blank, and leaves it to be read.
func firstOf(in *bufio.Reader) (byte, error) {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return 0, fmt.Errorf("the profiler's trace ends in its list of events: %w", err)
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) {
			return c, in.UnreadByte()
		}
	}
}

type ourEvents struct {
	base int64
	list []event
}

// readEvents reads a file of ours, also one that ends in the middle.
func readEvents(r io.Reader) (all ourEvents, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "[" {
		if err := lines.Err(); err != nil {
			return all, err
		}
		return all, errors.New("the second is not a trace of stalloc: give the profiler's, and then a file that STALLOC_CONF=trace:FILE has written")
	}
	for lines.Scan() {
		var e event
		line := bytes.TrimSuffix(lines.Bytes(), []byte(","))
		if json.Unmarshal(line, &e) != nil {
			break // where its process was killed, or the end
		}
		switch e.Name {
		case baseName:
			text, _ := e.Args["nanoseconds"].(string)
			if all.base, err = strconv.ParseInt(text, 10, 64); err != nil {
				return all, fmt.Errorf("the time that the trace begins at: %w", err)
			}
		default:
			all.list = append(all.list, e)
		}
	}
	return all, lines.Err()
}
