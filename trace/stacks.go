package trace

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Stacks are the call stacks of a recording's requests, equal ones once.
type Stacks struct {
	p     *pickle          // of a snapshot; nil once all are read
	lists map[int64]int32  // by list of frames: its stack, -1 for an empty one
	same  map[string]int32 // by the numbers of its frames, which a snapshot shares
	known map[string]int32 // by text
	texts []string
	bytes int     // of the texts
	of    []int32 // by block, whose ids count from zero
}

// What is kept of stacks: the innermost frames of each, and no more texts than these.
const (
	maxFrames     = 100
	maxStackBytes = 256 << 20
)

func newStacks(p *pickle) *Stacks {
	return &Stacks{p: p, lists: make(map[int64]int32), same: make(map[string]int32),
		known: make(map[string]int32)}
}

// Of returns the number of the block's stack, -1 if it has none.
func (s *Stacks) Of(id int64) int {
	if s == nil || id < 0 || id >= int64(len(s.of)) {
		return -1
	}
	return int(s.of[id])
}

// Texts returns the stacks by number: a frame a line, "file:line function", the innermost
// first.
func (s *Stacks) Texts() []string { return s.texts }

// add notes the stack of the block that the dictionary v is about.
func (s *Stacks) add(id int64, v value) {
	if s == nil {
		return
	}
	for int64(len(s.of)) <= id {
		s.of = append(s.of, -1)
	}
	if frames, ok := s.p.lookup(v, wordFrames); ok && frames.kind == valueList {
		s.of[id] = s.number(frames.n)
	}
}

func (s *Stacks) number(list int64) int32 {
	if n, ok := s.lists[list]; ok {
		return n
	}
	var numbers []byte
	for _, frame := range s.p.lists[list] {
		numbers = binary.AppendVarint(append(numbers, byte(frame.kind)), frame.n)
	}
	n, ok := s.same[string(numbers)]
	if !ok {
		n = s.read(list)
		s.same[string(numbers)] = n
	}
	s.lists[list] = n
	return n
}

// read makes the text of a list of frames.
func (s *Stacks) read(list int64) int32 {
	frames := s.p.lists[list]
	if s.bytes > maxStackBytes {
		return -1
	}
	var b strings.Builder
	for _, frame := range frames[:min(len(frames), maxFrames)] {
		if frame.kind != valueDict {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.text(frame, wordFilename))
		if line, ok := s.p.lookup(frame, wordLine); ok && line.kind == valueInt && line.n > 0 {
			b.WriteString(":" + strconv.FormatInt(line.n, 10))
		}
		b.WriteString(" " + s.text(frame, wordName))
	}
	return s.intern(b.String())
}

// intern numbers a text; -1 for an empty one.
func (s *Stacks) intern(text string) int32 {
	if text == "" {
		return -1
	}
	n, ok := s.known[text]
	if !ok {
		n = int32(len(s.texts))
		s.known[text] = n
		s.texts = append(s.texts, text)
		s.bytes += len(text)
	}
	return n
}

// text returns a string of a frame, "?" for one that is missing or too long to be kept.
func (s *Stacks) text(frame value, key word) string {
	switch v, ok := s.p.lookup(frame, key); {
	case ok && v.kind == valueWord:
		return word(v.n).String()
	case ok && v.kind == valueString && v.n > 0:
		return s.p.texts[v.n-1]
	}
	return "?"
}

// found returns the stacks if there are any, and lets go of the snapshot.
func (s *Stacks) found() *Stacks {
	if s == nil || len(s.texts) == 0 {
		return nil
	}
	s.p, s.lists, s.same, s.known = nil, nil, nil, nil
	return s
}
