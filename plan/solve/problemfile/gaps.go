package problemfile

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// text is how a gap is written.
func text(g dsa.Gap) string {
	if g.From == g.To {
		return fmt.Sprintf("%d-%d ", g.Lower, g.Upper)
	}
	return fmt.Sprintf("%d-%d@%d:%d ", g.Lower, g.Upper, int64(g.From), int64(g.To))
}

// gaps reads "3-5 8-9@0:4".
func (p *parser) gaps(f *File, text string) error {
	for _, gap := range strings.Fields(text) {
		times, window, windowed := strings.Cut(gap, "@")
		begin, end, ok := cutBehind(times, '-')
		g := dsa.Gap{Buffer: len(f.Problem.Buffers)}
		var numbers [4]int64
		texts := []string{begin, end}
		if windowed {
			from, to, two := strings.Cut(window, ":")
			texts, ok = append(texts, from, to), ok && two
		}
		for i, text := range texts {
			n, err := number("gap", text, timeBits)
			if !ok || err != nil {
				return fmt.Errorf("gap %q, expected one such as 3-5 or 3-5@0:4", gap)
			}
			numbers[i] = n
		}
		g.Lower, g.Upper, g.From, g.To = mem.Tick(numbers[0]), mem.Tick(numbers[1]),
			mem.Bytes(numbers[2]), mem.Bytes(numbers[3])
		if p.closed {
			g.Upper++
		}
		f.Problem.Gaps = append(f.Problem.Gaps, g)
	}
	return nil
}

// cutBehind cuts at the first such byte after the first, which may be a sign.
func cutBehind(s string, at byte) (before, after string, found bool) {
	if s == "" {
		return s, "", false
	}
	i := strings.IndexByte(s[1:], at)
	if i < 0 {
		return s, "", false
	}
	return s[:i+1], s[i+2:], true
}
