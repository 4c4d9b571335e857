// Package problemfile reads problems of storage allocation, and writes their offsets.
//
// # Format
//
// A line is a buffer, its fields are separated by commas. A first line with a letter names the
// fields, in any order:
//
//	id, buffer, buffer_id     a name; without one it is the line's number
//	lower, begin, start       when it begins to live
//	upper                     when it does no more; or
//	end                       the last time at which it lives (TelaMalloc's form)
//	size                      in bytes, or any unit
//	alignment                 its offset is a multiple
//	gaps                      times in which it takes nothing: "3-5 8-9", or only its bytes
//	                          from 0 to 4: "3-5@0:4"; where a line says end, a gap does, too
//	offset                    where it is pinned; -1 or nothing: it is not
//	hint                      not looked at
//
// Without a first line that names them the fields are id, lower, upper and size (minimalloc's and
// idealloc's form), or lower, upper and size where there are three, and each field after these is a
// gap. Empty lines and lines that begin with # are left out.
package problemfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// File is a problem and what its buffers are called.
type File struct {
	Problem dsa.Problem
	IDs     []string
}

// Is reports whether a file that begins with such bytes may be a problem: a recording begins
// with #, a snapshot with what no text has, a plan with STALLOCP.
func Is(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte(mark))
	return len(head) > 0 && !bytes.HasPrefix(head, []byte("STALLOCP")) &&
		(head[0] >= '0' && head[0] <= '9' || head[0] >= 'A' && head[0] <= 'Z' || head[0] >= 'a' &&
			head[0] <= 'z' || head[0] == '-' || head[0] == '"' || head[0] == '_')
}

type column int

const (
	id column = iota
	lower
	upper
	last
	size
	alignment
	gaps
	offset
	hint
)

var columns = map[string]column{
	"id": id, "buffer": id, "buffer_id": id, "lower": lower, "begin": lower, "start": lower,
	"upper": upper, "end": last,
	"size": size, "alignment": alignment, "gaps": gaps, "offset": offset, "hint": hint,
}

// Times and amounts are at most 2 to the power of these.
const timeBits, sizeBits = 61, 60

// mark is what some programs begin a text with.
const mark = "\ufeff"

// longestLine is what a buffer with thousands of gaps takes.
const longestLine = 1 << 20

// Read reads a problem. name is what errors call it.
func Read(r io.Reader, name string) (*File, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, longestLine)
	f, p := &File{}, &parser{}
	line, lines := 0, []int{} // the last, and those of buffers
	for in.Scan() {
		line++
		text := strings.TrimSpace(strings.TrimPrefix(in.Text(), mark))
		if text == "" || text[0] == '#' {
			continue
		}
		if err := p.line(f, strings.Split(text, ",")); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		if len(f.IDs) > len(lines) {
			lines = append(lines, line)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", name, line+1, err)
	}
	if len(f.IDs) == 0 {
		return nil, fmt.Errorf("%s: no buffer in it: expected lines of id,lower,upper,size", name)
	}
	err := f.Problem.Validate()
	var wrong *dsa.WrongBuffer
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s: line %d: buffer %s: %s", name, lines[wrong.Buffer],
			f.IDs[wrong.Buffer], wrong.Why)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// parser knows what the fields are.
type parser struct {
	fields []column
	more   bool // fields after them are gaps
	closed bool // ends are the last times
}

func (p *parser) line(f *File, fields []string) error {
	for i := range fields {
		fields[i] = strings.Trim(strings.TrimSpace(fields[i]), `"`)
	}
	if p.fields == nil {
		named, err := p.begin(fields)
		if err != nil || named {
			return err
		}
	}
	if len(fields) < len(p.fields) || len(fields) > len(p.fields) && !p.more {
		return fmt.Errorf("%d fields, expected %d", len(fields), len(p.fields))
	}
	return p.buffer(f, fields)
}

// begin looks at the first line, which may name the fields.
func (p *parser) begin(fields []string) (named bool, err error) {
	if len(fields) < 3 {
		return false, fmt.Errorf("%d fields, expected id,lower,upper,size", len(fields))
	}
	if _, err := number("lower", fields[min(1, len(fields)-1)], timeBits); err == nil {
		p.more = true
		p.fields = []column{id, lower, upper, size}
		if len(fields) == 3 {
			p.fields, p.more = p.fields[1:], false
		}
		return false, nil
	}
	there := map[column]bool{}
	for _, name := range fields {
		c, known := columns[strings.ToLower(name)]
		if !known {
			return true, fmt.Errorf("unknown field %q: known are id, lower, upper, end, size, alignment, gaps, offset and hint", name)
		}
		if there[c] {
			return true, fmt.Errorf("field %q is named twice", name)
		}
		there[c] = true
		p.fields = append(p.fields, c)
	}
	p.closed = there[last]
	if !there[lower] || !there[size] || there[upper] == there[last] {
		return true, fmt.Errorf("the fields are %s, expected lower, upper and size among them",
			strings.Join(fields, ","))
	}
	return true, nil
}

// number reads a time, or an amount, which has a bit less.
func number(what, text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > 1<<bits || n < -1<<bits {
		return 0, fmt.Errorf("%s is %q, expected a whole number up to 2^%d", what, text, bits)
	}
	return n, nil
}

// buffer reads one line.
func (p *parser) buffer(f *File, fields []string) error {
	of := &f.Problem
	b, name, align := dsa.Buffer{}, strconv.Itoa(len(of.Buffers)), mem.Bytes(1)
	var err error
	read := func(what, text string, bits int) (n int64) {
		if err == nil {
			n, err = number(what, text, bits)
		}
		return n
	}
	for i, text := range fields {
		c := gaps
		if i < len(p.fields) {
			c = p.fields[i]
		}
		switch c {
		case id:
			name = text
		case lower:
			b.Lower = mem.Tick(read("lower", text, timeBits))
		case upper:
			b.Upper = mem.Tick(read("upper", text, timeBits))
		case last:
			b.Upper = mem.Tick(read("end", text, timeBits)) + 1
		case size:
			b.Size = mem.Bytes(read("size", text, sizeBits))
		case alignment:
			align = mem.Bytes(read("alignment", text, sizeBits))
		case gaps:
			if err == nil {
				err = p.gaps(f, text)
			}
		case offset:
			if at := int64(-1); text != "" {
				if at = read("offset", text, sizeBits); at >= 0 {
					of.Pins = append(of.Pins, dsa.Pin{Buffer: len(of.Buffers), At: mem.Offset(at)})
				}
			}
		}
	}
	if align != 1 && of.Align == nil {
		for range of.Buffers {
			of.Align = append(of.Align, 1)
		}
		of.Align = append(of.Align, align)
	} else if of.Align != nil {
		of.Align = append(of.Align, align)
	}
	of.Buffers, f.IDs = append(of.Buffers, b), append(f.IDs, name)
	return err
}
