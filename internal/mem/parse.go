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
const Amounts = "80GiB or 80G (2^30 bytes each), 80GB (10^9), 1.5TiB, or bytes, as in 4096B"

// ParseBytes reads an amount of memory: a number and its unit in any case, such as
// "80GiB", "512 MiB", "1.5g", "80GB" or "4096". K, M, G and T are binary, with or without
// iB behind them; KB, MB, GB and TB are decimal. The C library reads the same
// (cshim/lib/amount.h).
func ParseBytes(s string) (Bytes, error) {
	n, ok := parse(strings.Trim(s, " \t"))
	if ok && n < most {
		return n, nil
	}
	if ok {
		return 0, fmt.Errorf("%q is too large: expected less than 4194304TiB", s)
	}
	return 0, fmt.Errorf("%q is not an amount of memory: expected %s", s, Amounts)
}

const most Bytes = 1 << 62

// parse returns most for all that is too large.
func parse(text string) (Bytes, bool) {
	whole, rest, ok := digits(text)
	if !ok {
		return 0, false
	}
	part, of := 0.0, 1.0
	behind, point := strings.CutPrefix(rest, ".")
	if point {
		fraction := behind[:len(behind)-len(strings.TrimLeft(behind, "0123456789"))]
		rest = behind[len(fraction):]
		n, _, ok := digits(fraction[:min(len(fraction), 15)])
		if !ok {
			return 0, false
		}
		part = float64(n)
		for range min(len(fraction), 15) {
			of *= 10
		}
	}
	factor, ok := units[lower(strings.TrimLeft(rest, " \t"))]
	if !ok || point && factor == 1 {
		return 0, false
	}
	if whole >= most/factor {
		return most, true
	}
	return whole*factor + Bytes(part/of*float64(factor)), true
}

// digits reads the whole number that text begins with, of at least one digit.
func digits(text string) (n Bytes, rest string, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return n, text[i:], i > 0
		}
		if n >= most/10 {
			n = most
			continue
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
