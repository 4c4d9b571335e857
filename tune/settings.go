package tune

import (
	"fmt"
	"math"
	"strings"

	"stalloc/engine/onerange"
	"stalloc/internal/mem"
)

// Setting is a constant of the price, by its name in STALLOC_CONF.
type Setting struct {
	Key         string
	Least, Most int64
	About       string

	power bool // of two alone
	bytes bool
	of    func(c *onerange.Config) (get int64, set func(int64))
}

// Settings are those that a search varies. STALLOC_CONF takes the same between the same bounds.
var Settings = []Setting{
	{Key: "handle_part", Least: 16, Most: 8192,
		About: "a handle is at most the load divided by this",
		of: func(c *onerange.Config) (int64, func(int64)) {
			return int64(c.HandlePart), func(n int64) { c.HandlePart = int(n) }
		}},
	{Key: "handle_most", Least: 2 << 20, Most: 1 << 30, About: "the largest handle",
		power: true, bytes: true, of: func(c *onerange.Config) (int64, func(int64)) {
			return int64(c.HandleMost), func(n int64) { c.HandleMost = mem.Bytes(n) }
		}},
	{Key: "grow_part", Least: 1, Most: 64,
		About: "memory grows in multiples of a handle divided by this",
		of: func(c *onerange.Config) (int64, func(int64)) {
			return int64(c.GrowPart), func(n int64) { c.GrowPart = int(n) }
		}},
	{Key: "small_limit", Least: 512, Most: 1 << 20,
		About: "requests up to this size have an arena of their own",
		bytes: true, of: func(c *onerange.Config) (int64, func(int64)) {
			return int64(c.SmallLimit), func(n int64) { c.SmallLimit = mem.Bytes(n) }
		}},
}

// Values are those of Settings, in their order.
type Values [4]int64

// Defaults are what serves without a setting.
func Defaults() (v Values) {
	c := onerange.DefaultConfig()
	for i, s := range Settings {
		v[i], _ = s.of(&c)
	}
	return v
}

// Config returns the policy of values.
func (v Values) Config() onerange.Config {
	c := onerange.DefaultConfig()
	for i, s := range Settings {
		_, set := s.of(&c)
		set(v[i])
	}
	return c
}

// Conf returns what to put into STALLOC_CONF: the settings that differ from the defaults.
func (v Values) Conf() string {
	var pairs []string
	for i, s := range Settings {
		if v[i] != Defaults()[i] {
			pairs = append(pairs, s.Key+":"+s.text(v[i]))
		}
	}
	return strings.Join(pairs, ",")
}

func (s *Setting) text(n int64) string {
	switch {
	case s.bytes && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case s.bytes && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprint(n)
}

// variable returns where a value lies in the box that is searched: settings count by their ratios.
func variable(n int64) float64 { return math.Log2(float64(n)) }

// value returns the setting's nearest value of a variable.
func (s *Setting) value(x float64) int64 {
	n := int64(math.Round(math.Exp2(x)))
	switch {
	case s.power:
		n = 1 << int64(math.Round(x))
	case s.bytes:
		n = (n + 511) / 512 * 512
	}
	return min(max(n, s.Least), s.Most)
}
