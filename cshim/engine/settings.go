package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"stalloc/actors"
	"stalloc/cuda"
	"stalloc/cuda/nvml"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
	"stalloc/internal/output"
	"stalloc/internal/without"
	"stalloc/live/metrics"
	"stalloc/live/page"
	"stalloc/live/perfetto"
	"stalloc/replay/shadow"
)

// settings is STALLOC_CONF, which C has checked.
type settings struct {
	name    string            // what lines of the log begin with
	set     map[string]string // the values by their keys
	engine  onerange.Config
	lake    gmlake.Config
	without without.Set
	share   float64 // limit as a share of the device's memory; 0: engine.Limit is the limit
}

func parseSettings(name, text string) settings {
	s := settings{name: name, set: map[string]string{}, engine: onerange.DefaultConfig(),
		lake: gmlake.DefaultConfig()}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, ":")
		s.set[key] = value
	}
	if s.set["stitch"] == "off" {
		s.without |= without.Stitch
	}
	if s.set["wait"] == "off" {
		s.without |= without.Wait | without.Lend
	}
	if s.noPlan() {
		s.without |= without.Plans
	}
	s.amount("window", &s.engine.Window)
	s.amount("handle_most", &s.engine.HandleMost)
	s.amount("small_limit", &s.engine.SmallLimit)
	s.number("handle_part", &s.engine.HandlePart)
	s.number("grow_part", &s.engine.GrowPart)
	s.amount("fraglimit", &s.lake.FragLimit)
	s.share = s.amount("limit", &s.engine.Limit)
	return s
}

// amount reads an amount of memory, if it is set, or the share that it is instead.
func (s settings) amount(key string, to *mem.Bytes) (share float64) {
	if percent, ok := strings.CutSuffix(s.set[key], "%"); ok {
		share, _ = strconv.ParseFloat(strings.TrimSpace(percent), 64)
		return share / 100
	}
	if n, err := mem.ParseBytes(s.set[key]); err == nil {
		*to = n
	}
	return 0
}

func (s settings) number(key string, to *int) {
	if n, err := strconv.Atoi(s.set[key]); err == nil {
		*to = n
	}
}

// noPlan reports whether plans are neither made nor served.
func (s settings) noPlan() bool { return s.set["plan"] == "off" || s.set["pool"] == "gmlake" }

func (s settings) options(log *zap.Logger, dev *cuda.Device) (actors.Options, error) {
	if s.share > 0 {
		_, total, err := dev.Memory()
		if err != nil {
			return actors.Options{}, fmt.Errorf("the limit is a share of the device's memory, which the driver does not tell; give it in bytes: %w", err)
		}
		// 0 would be no limit
		s.engine.Limit = max(mem.Bytes(s.share*float64(total)), mem.HandleSize)
	}
	if kind := s.set["share"]; kind == "fd" || kind == "fabric" {
		if err := dev.Share(kind == "fabric"); err != nil {
			log.Warn("memory is not made for other processes: the device cannot; set share:off",
				zap.String("share", kind), zap.Error(err))
		}
	}
	options := actors.Options{
		Log: log, Without: s.without, Always: s.set["plan"] == "always",
		Range: s.engine, Report: s.set["oom_report"],
		Holders: func() ([]explain.Holder, error) {
			uuid, err := dev.UUID()
			if err != nil {
				return nil, err
			}
			return nvml.Holders(uuid)
		},
	}
	if s.set["native"] != "off" {
		options.Shadow = shadow.New
	}
	if s.set["pool"] == "gmlake" {
		options.GMLake = &s.lake
	}
	return options, nil
}

// watch starts the Prometheus endpoint and the trace, if they are asked for, and logs once what
// cannot start.
func (s settings) watch(log *zap.Logger) *perfetto.Trace {
	if port, _ := strconv.Atoi(s.set["metrics"]); port > 0 {
		if _, err := metrics.Serve(port, page.Own); err != nil {
			log.Warn("the metrics endpoint does not start; give metrics:PORT a port that is free", zap.Error(err))
		}
	}
	if report := s.set["oom_report"]; report != "" {
		folder := filepath.Dir(explain.ReportPath(report, os.Getenv("RANK"), os.Getpid(), 0))
		if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
			log.Warn("the report of an out of memory cannot be written; make its folder, or name another", zap.String("folder", folder), zap.Error(err))
		}
	}
	file := s.set["trace"]
	if file == "" {
		return nil
	}
	path := explain.ReportPath(file, os.Getenv("RANK"), os.Getpid(), 0)
	trace, err := perfetto.Create(path, s.name)
	if err != nil {
		log.Warn("no trace is written", zap.Error(err))
		return nil
	}
	trace.Tell(func(err error) {
		log.Warn("the trace ends here", zap.String("file", path), zap.Error(err))
	})
	return trace
}

// newLogger writes to standard error, one line an entry.
func (s settings) newLogger() *zap.Logger {
	level, err := zapcore.ParseLevel(s.set["log"])
	if s.set["log"] == "" || err != nil {
		level = zapcore.WarnLevel
	}
	// A log that has become too large is no reason to end the process.
	sink := zapcore.Lock(output.Limited{File: os.Stderr})
	lines := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	core := zapcore.NewCore(lines, sink, level)
	// Of entries that repeat in a second, the first hundred and each hundredth after them.
	core = zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)
	return zap.New(core, zap.ErrorOutput(sink)).Named(s.name)
}
