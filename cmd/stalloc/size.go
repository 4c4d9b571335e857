package main

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
)

// size is an amount of memory on the command line: 80GiB, 512 MiB, 4096B.
type size mem.Bytes

// amounts is for the help of flags. Set takes large numbers for bytes, too.
const amounts = ", with its unit: 80GiB, 80GB, 4096B"

func (s *size) Set(text string) error {
	n, err := mem.ParseBytes(text)
	if err != nil {
		return err
	}
	if digits := strings.TrimSpace(text); n > 0 && n < mem.MiB &&
		strings.Trim(digits, "0123456789") == "" {
		return fmt.Errorf("%s has no unit and would be %s bytes: write %sGiB, or %sB if you mean bytes", digits, digits, digits, digits)
	}
	if n <= 0 {
		return fmt.Errorf("%q is no amount of memory above zero: write %s", text, mem.Amounts)
	}
	*s = size(n)
	return nil
}

// String prints whole units as one would type them: 80GiB.
func (s *size) String() string {
	return strings.ReplaceAll(strings.Replace(mem.Bytes(*s).String(), ".00", "", 1), " ", "")
}

func (s *size) Type() string { return "size" }
