package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"stalloc/actors"
	"stalloc/cuda"
	"stalloc/cuda/nvml"
	core "stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// settings is STALLOC_CONF as C has read and checked it.
type settings struct {
	level  zapcore.Level
	noPlan bool
	always bool   // whatever a plan is worth, it is served: for tests
	cache  string // "": none
	engine core.Config
	pool   string
	lake   gmlake.Config
}

func parseSettings(text string) (settings, error) {
	s := settings{level: zapcore.WarnLevel, engine: core.DefaultConfig(), lake: gmlake.DefaultConfig(), cache: defaultCache()}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, ":")
		var err error
		switch key {
		case "log":
			err = s.level.UnmarshalText([]byte(value))
		case "plan":
			s.noPlan, s.always = value == "off", value == "always"
		case "cache":
			if s.cache = value; value == "off" {
				s.cache = ""
			}
		case "stitch":
			s.engine.Stitch = value == "on"
		case "pool":
			s.pool = value
		case "fraglimit":
			s.lake.FragLimit, err = mem.ParseBytes(value)
		case "window":
			s.engine.Window, err = mem.ParseBytes(value)
		case "limit":
			s.engine.Limit, err = mem.ParseBytes(value)
		}
		if err != nil {
			return s, fmt.Errorf("STALLOC_CONF: %s: %w", key, err)
		}
	}
	return s, nil
}

// defaultCache is the user's cache folder; none where the system has no such thing.
func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "stalloc")
}

func (s settings) options(log *zap.Logger, dev *cuda.Device) actors.Options {
	neighbours := func() (string, error) {
		uuid, err := dev.UUID()
		if err != nil {
			return "", err
		}
		return nvml.Neighbours(uuid)
	}
	options := actors.Options{Log: log, NoPlan: s.noPlan, Always: s.always, Cache: s.cache, Engine: s.engine, Neighbours: neighbours}
	if s.pool == "gmlake" {
		options.GMLake = &s.lake
	}
	return options
}

// newLogger writes to standard error, one line an entry.
func newLogger(level zapcore.Level) *zap.Logger {
	c := zap.NewProductionConfig()
	c.Encoding = "console"
	c.EncoderConfig = zap.NewDevelopmentEncoderConfig()
	c.Level = zap.NewAtomicLevelAt(level)
	c.DisableCaller, c.DisableStacktrace = true, true
	log, err := c.Build()
	if err != nil {
		return zap.NewNop()
	}
	return log.Named("stalloc")
}
