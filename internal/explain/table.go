package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stalloc/internal/mem"
)

// listed is how many sizes, phases and processes are named each.
const listed = 5

// Refusal is the text of an out of memory: the reason, the table and what to try.
func (f *Figures) Refusal() string {
	var b strings.Builder
	b.WriteString(f.Reason() + ".\n\n" + f.Table())
	if tips := f.Advice(); len(tips) > 0 {
		b.WriteString("\nWhat to try:\n")
		for _, tip := range tips {
			b.WriteString(wrap("  - " + tip))
		}
	}
	return b.String()
}

// Table says who holds the device's memory, and what this program's is used for.
func (f *Figures) Table() string {
	var b strings.Builder
	t := table{&b}
	if f.Device != "" {
		fmt.Fprintf(&b, "%s\n", f.Device)
	}
	if f.Asked > 0 {
		stream := "on the default stream"
		if f.Stream != 0 {
			stream = fmt.Sprintf("on stream %#x", uint64(f.Stream))
		}
		t.row("asked for", f.Asked, stream)
	}
	if f.Total > 0 {
		t.row("free on the device", f.Free, fmt.Sprintf("of %v", f.Total))
	}
	if f.Limit > 0 {
		t.row("limit", f.Limit, "set by the program")
	}
	t.row("held by stalloc", f.Reserved, share(f.Reserved, f.Total, "of the device"))
	t.row("  in live blocks", f.Allocated, count(f.Blocks))
	if f.Pending > 0 {
		t.row("  freed, other streams use it", f.Pending, "")
	}
	hole := ""
	if f.LargestGap > 0 {
		hole = fmt.Sprintf("largest hole %v", f.LargestGap)
	}
	t.row("  free", f.Idle(), hole)
	f.others(t)
	f.live(t)
	if f.Note != "" {
		b.WriteString("\n" + wrap(f.Note))
	}
	if f.HoldersError != "" {
		b.WriteString(wrap("Processes may be missing: " + f.HoldersError))
	}
	return b.String()
}

type table struct{ b *strings.Builder }

// width is that of a terminal, less a little for what is printed before a line.
const width = 78

// row prints a name, an amount with its point below the others', and a remark.
func (t table) row(name string, amount mem.Bytes, remark string) {
	number, unit, _ := strings.Cut(amount.String(), " ")
	t.line(name, number, unit, remark)
}

func (t table) line(name, number, unit, remark string) {
	line := fmt.Sprintf("%-36.36s %8s %-3s  %.26s", name, number, unit, remark)
	t.b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func share(part, whole mem.Bytes, of string) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% %s", 100*float64(part)/float64(whole), of)
}

func count(blocks int) string {
	if blocks == 0 {
		return ""
	}
	if blocks == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", blocks)
}

// wrap breaks a line between words, and sets what follows below its first word.
func wrap(text string) string {
	indent := strings.Repeat(" ", len(text)-len(strings.TrimLeft(text, " -")))
	var b strings.Builder
	line := text[:len(indent)]
	for i, word := range strings.Fields(text[len(indent):]) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// others says what is held by whom, as far as it is known.
func (f *Figures) others(t table) {
	if f.Others() == 0 && len(f.Holders) == 0 {
		return
	}
	t.row("held by others", f.Others(), "")
	own, known := f.own()
	if known {
		t.row("  this process besides", own, "CUDA context, libraries")
	}
	processes := slices.DeleteFunc(slices.Clone(f.Holders), func(h Holder) bool { return h.Self })
	slices.SortStableFunc(processes, func(a, b Holder) int { return cmp.Compare(b.Used, a.Used) })
	for _, h := range processes[:min(len(processes), listed)] {
		name := fmt.Sprintf("  process %d", h.PID)
		if h.Used < 0 {
			t.line(name, "?", "", h.Name)
			continue
		}
		t.row(name, h.Used, h.Name)
	}
	if rest := processes[min(len(processes), listed):]; len(rest) > 0 {
		var sum mem.Bytes
		for _, h := range rest {
			sum += max(h.Used, 0)
		}
		t.row(fmt.Sprintf("  %d more processes", len(rest)), sum, "")
	}
	if !known && len(processes) == 0 {
		t.row("  CUDA context, libraries, processes", f.Others(), "not told apart")
	}
}

// live says of which sizes the live blocks are, and from when.
func (f *Figures) live(t table) {
	sizes := slices.Clone(f.Sizes)
	slices.SortStableFunc(sizes, func(x, y Size) int { return cmp.Compare(y.Sum(), x.Sum()) })
	if len(sizes) > 0 {
		t.b.WriteString("\nLive blocks by size:\n")
		for _, s := range sizes[:min(len(sizes), listed)] {
			t.row(fmt.Sprintf("  %d of %v", s.Blocks, s.Size), s.Sum(),
				share(s.Sum(), f.Allocated, "of the load"))
		}
	}
	if len(f.Phases) == 0 {
		return
	}
	t.b.WriteString("\nLive blocks by when they were allocated:\n")
	for _, p := range f.Phases[max(0, len(f.Phases)-listed):] {
		t.row("  "+p.Name, p.Bytes, share(p.Bytes, f.Allocated, "of the load"))
	}
}
