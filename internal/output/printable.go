package output

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces what a terminal would obey and Prometheus does not take.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
