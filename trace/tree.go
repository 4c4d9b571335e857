package trace

import (
	"bytes"
	"strconv"
)

const wantStack = `"k,<stack>,<caller's stack or nothing>,<frame>", numbered in order, callers first`

// tree is the call stacks of our own format: each is its caller's, and a frame more.
type tree struct {
	keep    bool     // else numbers are checked alone
	callers []int32  // by stack; -1 for none
	frames  []string // "file:line function"; empty unless kept
	stacks  *Stacks
	known   map[int32]int32 // by stack: its number among those with a text
}

func newTree(keep bool) *tree {
	return &tree{keep: keep, stacks: newStacks(nil), known: make(map[int32]int32)}
}

// grow adds the stack of a line "k,<number>,<caller's>,<frame>", and says what was wanted if it is
// none. Numbers come in order, callers first.
func (t *tree) grow(line []byte) (want string) {
	parts := bytes.SplitN(line, []byte{','}, 4)
	if len(parts) != 4 || string(parts[0]) != "k" ||
		string(parts[1]) != strconv.Itoa(len(t.callers)) {
		return wantStack
	}
	caller := int64(-1)
	if len(parts[2]) > 0 {
		n, err := strconv.ParseUint(string(parts[2]), 10, 31)
		if err != nil || !t.has(n) {
			return wantStack
		}
		caller = int64(n)
	}
	t.callers = grown(t.callers, int32(caller))
	if t.keep {
		t.frames = grown(t.frames, string(parts[3]))
	}
	return ""
}

func (t *tree) has(stack uint64) bool { return stack < uint64(len(t.callers)) }

// note says that a block, the so many-th of the trace, was requested with a stack. Numbers of
// blocks that are out of all proportion are no recording's.
func (t *tree) note(id, blocks int64, stack int32) {
	if !t.keep || id >= 4*blocks+1024 {
		return
	}
	s := t.stacks
	for int64(len(s.of)) <= id {
		s.of = append(s.of, -1)
	}
	n, ok := t.known[stack]
	if !ok {
		n = s.intern(t.text(stack))
		t.known[stack] = n
	}
	s.of[id] = n
}

// text is a stack's, the innermost frame first.
func (t *tree) text(stack int32) string {
	if t.stacks.bytes > maxStackBytes {
		return ""
	}
	var b []byte
	for n := 0; stack >= 0 && n < maxFrames; n++ {
		if n > 0 {
			b = append(b, '\n')
		}
		b = append(b, t.frames[stack]...)
		stack = t.callers[stack]
	}
	return string(b)
}
