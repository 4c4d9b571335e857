package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"stalloc/actors"
	"stalloc/cuda"
	"stalloc/cuda/nvml"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
	"stalloc/live/metrics"
	"stalloc/live/page"
	"stalloc/live/perfetto"
)

// settings is STALLOC_CONF as C has read and checked it.
type settings struct {
	level  zapcore.Level
	noPlan bool
	always bool   // whatever a plan is worth, it is served: for tests
	native bool   // PyTorch's allocator is simulated beside the program
	cache  string // "": none
	engine onerange.Config
	pool   string
	lake   gmlake.Config
	share  float64 // of the device's memory, the most to take; 0: engine.Limit says

	metrics int    // the port that answers Prometheus; 0: none
	trace   string // a file for a Chrome trace; "": none
	report  string // a file for what is known when memory runs out; "": none
}

func parseSettings(text string) (settings, error) {
	s := settings{level: zapcore.WarnLevel, engine: onerange.DefaultConfig(), lake: gmlake.DefaultConfig(), cache: defaultCache(), native: true}
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
		case "native":
			s.native = value == "on"
		case "pool":
			s.pool = value
		case "metrics":
			s.metrics, err = strconv.Atoi(value)
		case "trace":
			s.trace = explain.ReportPath(value, os.Getenv("RANK"), os.Getpid(), 0)
		case "oom_report":
			s.report = value
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

// amounts takes the settings that are amounts of memory: C has read them, zero is none.
func (s *settings) amounts(window, fraglimit, limit mem.Bytes, share float64) {
	s.engine.Limit, s.share = limit, share
	if window > 0 {
		s.engine.Window = window
	}
	if fraglimit > 0 {
		s.lake.FragLimit = fraglimit
	}
}

func (s settings) options(log *zap.Logger, dev *cuda.Device) (actors.Options, error) {
	if s.share > 0 {
		_, total, err := dev.Memory()
		if err != nil {
			return actors.Options{}, fmt.Errorf("the limit is a share of the device's memory, which cannot be had: %w", err)
		}
		s.engine.Limit = mem.Bytes(s.share * float64(total))
	}
	options := actors.Options{
		Log: log, NoPlan: s.noPlan, Always: s.always, Native: s.native, Cache: s.cache, Range: s.engine, Report: s.report,
		Holders: func() ([]explain.Holder, error) {
			uuid, err := dev.UUID()
			if err != nil {
				return nil, err
			}
			return nvml.Holders(uuid)
		},
	}
	if s.pool == "gmlake" {
		options.GMLake = &s.lake
	}
	return options, nil
}

// watch begins what tells others of this process: both cost nothing if not asked for, and
// what cannot begin is said once.
func (s settings) watch(log *zap.Logger) *perfetto.Trace {
	if s.metrics > 0 {
		if _, err := metrics.Serve(s.metrics, page.Own); err != nil {
			log.Warn("Prometheus is not answered", zap.Error(err))
		}
	}
	if s.trace == "" {
		return nil
	}
	trace, err := perfetto.Create(s.trace, logName())
	if err != nil {
		log.Warn("no trace is written", zap.Error(err))
	}
	return trace
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
	return log.Named(logName())
}
