//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"stalloc"
)

// contents reads and writes device memory, as cuda.Device does.
type contents interface {
	Write(to stalloc.Addr, from []byte) error
	Read(to []byte, from stalloc.Addr) error
}

// piece is how much is written or read at once.
const piece = 256 << 10

// A block's pattern is a different word at every place of every block, so that a
// page that shows up twice, or in the wrong block, is found as surely as a byte
// that was overwritten.
func pattern(to []byte, tag uint64, at stalloc.Bytes) {
	word := tag ^ uint64(at)*0x9E3779B97F4A7C15
	for len(to) >= 8 {
		binary.LittleEndian.PutUint64(to, word)
		word += 0x2545F4914F6CDD1D
		to = to[8:]
	}
	for i := range to {
		to[i] = byte(word >> (8 * i))
	}
}

func fill(memory contents, b block) error {
	buffer := make([]byte, min(b.size, piece))
	for at := stalloc.Bytes(0); at < b.size; at += piece {
		part := buffer[:min(b.size-at, piece)]
		pattern(part, b.tag, at)
		if err := memory.Write(b.addr+stalloc.Addr(at), part); err != nil {
			return err
		}
	}
	return nil
}

// check compares a block with its pattern and names the first byte that differs.
func check(memory contents, b block) error {
	buffer := make([]byte, 2*min(b.size, piece))
	for at := stalloc.Bytes(0); at < b.size; at += piece {
		n := int(min(b.size-at, piece))
		want, got := buffer[:n], buffer[len(buffer)/2:][:n]
		pattern(want, b.tag, at)
		if err := memory.Read(got, b.addr+stalloc.Addr(at)); err != nil {
			return err
		}
		if bytes.Equal(want, got) {
			continue
		}
		for i := range want {
			if want[i] != got[i] {
				return fmt.Errorf("byte %d of %d at %#x is %#02x, not %#02x: its memory was given to somebody else",
					int64(at)+int64(i), int64(b.size), uint64(b.addr), got[i], want[i])
			}
		}
	}
	return nil
}
