package problemfile

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"stalloc/internal/mem"
)

// Write writes a problem and its offsets, which Read reads as a problem of which all is pinned;
// nil: the problem alone.
func Write(w io.Writer, f *File, offsets []mem.Offset) error {
	p := &f.Problem
	out := bufio.NewWriter(w)
	head := "id,lower,upper,size"
	if p.Align != nil {
		head += ",alignment"
	}
	var gaps []strings.Builder
	if len(p.Gaps) > 0 {
		head += ",gaps"
		gaps = make([]strings.Builder, len(p.Buffers))
	}
	for _, g := range p.Gaps {
		gaps[g.Buffer].WriteString(text(g))
	}
	if offsets != nil {
		head += ",offset"
	}
	fmt.Fprintln(out, head)
	for i, b := range p.Buffers {
		name := f.IDs[i]
		if strings.HasPrefix(name, "#") { // or the line would be left out
			name = `"` + name + `"`
		}
		fmt.Fprintf(out, "%s,%d,%d,%d", name, b.Lower, b.Upper, int64(b.Size))
		if p.Align != nil {
			fmt.Fprintf(out, ",%d", int64(p.Align[i]))
		}
		if gaps != nil {
			fmt.Fprintf(out, ",%s", strings.TrimSpace(gaps[i].String()))
		}
		if offsets != nil {
			fmt.Fprintf(out, ",%d", int64(offsets[i]))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
