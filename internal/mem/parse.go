package mem

import (
	"fmt"
	"strings"
)

var units = map[string]Bytes{
	"": 1, "b": 1,
	"k": KiB, "m": MiB, "g": GiB, "t": TiB,
	"kib": KiB, "mib": MiB, "gib": GiB, "tib": TiB,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// Amounts says what ParseBytes reads, for the texts of errors.
const Amounts = "80GiB or 80G (2^30 bytes each), 80GB (10^9), 1.5TiB, or a whole number of bytes"

// ParseBytes reads an amount of memory: a number and its unit in any case, such as
// "80GiB", "512 MiB", "1.5g", "80GB" or "4096". K, M, G and T are binary, with or without
// iB behind them; KB, MB, GB and TB are decimal. The C library reads the same
// (cshim/amount.h).
func ParseBytes(s string) (Bytes, error) {
	if n, ok := parse(strings.Trim(s, " \t")); ok {
		return n, nil
	}
	return 0, fmt.Errorf("%q is not an amount of memory: expected %s", s, Amounts)
}

func parse(text string) (Bytes, bool) {
	const most = 1 << 62
	whole, rest, ok := digits(text, most/10)
	if !ok {
		return 0, false
	}
	part, of := 0.0, 1.0
	behind, point := strings.CutPrefix(rest, ".")
	if point {
		fraction := behind[:len(behind)-len(strings.TrimLeft(behind, "0123456789"))]
		rest = behind[len(fraction):]
		n, _, ok := digits(fraction[:min(len(fraction), 15)], most)
		if !ok {
			return 0, false
		}
		part = float64(n)
		for range min(len(fraction), 15) {
			of *= 10
		}
	}
	factor, ok := units[lower(strings.TrimLeft(rest, " \t"))]
	if !ok || whole >= most/factor || point && factor == 1 {
		return 0, false
	}
	return whole*factor + Bytes(part/of*float64(factor)), true
}

// digits reads the whole number that text begins with: at least one digit, and none
// more once it has reached most.
func digits(text string, most Bytes) (n Bytes, rest string, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return n, text[i:], i > 0
		}
		if n >= most {
			return 0, "", false
		}
		n = n*10 + Bytes(text[i]-'0')
	}
	return n, "", text != ""
}

// lower changes the letters of units alone: other alphabets have some that would become
// them.
func lower(text string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, text)
}
