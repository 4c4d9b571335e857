package score

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// Answer is a simulator: one of the allocators that package replay knows. It also reads the
// recording itself, for the protocol does not say in advance when a late free will complete.
func Answer(ctx context.Context, in io.Reader, out io.Writer, tr *trace.Trace, a replay.Allocator,
	c replay.Config) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &server{in: bufio.NewScanner(in), out: bufio.NewWriter(out),
		blocks: newBlocks()}
	first := s.read()
	capacity, ok := strings.CutPrefix(first, "c,")
	n, err := strconv.ParseUint(capacity, 10, 63)
	if !ok || err != nil || n < 1 {
		return s.wrong("c,<bytes>", first)
	}
	c.Capacity = mem.Bytes(n)
	var last replay.Seen
	r, err := a.Follow(ctx, tr, c, func(seen replay.Seen) {
		if err := s.event(tr, seen); err != nil {
			stop(err)
		}
		last = seen
	}, nil)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if r.OOM {
		if err := s.expect(&tr.Events[last.Event+1]); err != nil {
			return err
		}
		return s.say("full")
	}
	if line := s.read(); line != "q" {
		return s.wrong("q", line)
	}
	// the result is rounded, and counts do not fall
	return s.say("%d,%d,%s", r.PeakReserved, max(r.Retries, last.Done.Retries),
		decimal(max(r.DriverTimeUS, last.Done.TimeUS)))
}

// server is the other end of the pipes.
type server struct {
	in     *bufio.Scanner
	out    *bufio.Writer
	lines  int
	blocks *blocks // those that have not ended yet
}

func (s *server) read() string {
	s.lines++
	s.in.Scan()
	return s.in.Text()
}

func (s *server) wrong(want, got string) error {
	return fmt.Errorf("line %d of the input: expected %q, got %.80q: is it the same recording?",
		s.lines, want, got)
}

func (s *server) say(format string, values ...any) error {
	fmt.Fprintf(s.out, format+"\n", values...)
	return s.out.Flush()
}

// expect reads the line of an event.
func (s *server) expect(e *trace.Event) error {
	want, err := e.AppendText(nil)
	if line := s.read(); err == nil && line != string(want) {
		err = s.wrong(string(want), line)
	}
	return err
}

// waits writes which blocks were waited for: those whose memory is reused.
func (s *server) waits(at mem.Addr, size mem.Bytes) {
	for _, id := range s.blocks.under(at, size) {
		fmt.Fprintf(s.out, "w,%d\n", id)
		s.blocks.remove(id)
	}
}

// decimal prints all of a number.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// event reads the line of an event that was replayed, and answers it.
func (s *server) event(tr *trace.Trace, seen replay.Seen) error {
	e := &tr.Events[seen.Event]
	if err := s.expect(e); err != nil {
		return err
	}
	now := fmt.Sprintf("%d,%d,%s", seen.Peak, seen.Done.Retries,
		decimal(seen.Done.TimeUS))
	switch {
	case e.Kind == trace.Alloc:
		if e.Size > 0 {
			s.waits(seen.Addr, e.Size)
			if err := s.blocks.add(e.ID, seen.Addr, e.Size); err != nil {
				return err
			}
		}
		return s.say("%d,%s", seen.Addr, now)
	case e.Kind == trace.FreeCompleted:
		s.blocks.remove(e.ID)
	case e.Kind == trace.Mark && replay.Boundary(e.Mark):
		return s.say("%s", now)
	}
	return nil
}
