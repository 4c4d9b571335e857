package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// GPU is what the driver's nvidia-smi tells of one.
type GPU struct {
	Index, UUID string
	Capacity    uint64 // bytes
}

// timeout bounds how long nvidia-smi may take, which a broken driver hangs.
const timeout = 10 * time.Second

// GPUs asks nvidia-smi, which every driver brings, for the GPUs of the machine; none where there
// is none. They do not change while a program runs: ask once.
func GPUs() []GPU {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	text, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index,uuid,memory.total",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil
	}
	var gpus []GPU
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) != 3 {
			continue
		}
		if mib, err := strconv.ParseUint(fields[2], 10, 40); err == nil {
			gpus = append(gpus, GPU{fields[0], fields[1], mib << 20})
		}
	}
	return gpus
}

// Capacity is the memory of the process's device of that number, in bytes; 0 where it cannot be
// told. CUDA numbers devices as CUDA_VISIBLE_DEVICES lists them, by indices or UUIDs. CUDA counts
// the fastest first and nvidia-smi by the bus, so indices tell only where all GPUs have as much,
// or the process orders them by the bus, too.
func (p *Process) Capacity(gpus []GPU, ordinal int) uint64 {
	alike := true
	for _, g := range gpus {
		alike = alike && g.Capacity == gpus[0].Capacity
	}
	env := p.environment("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
	name := strconv.Itoa(ordinal)
	if visible := env["CUDA_VISIBLE_DEVICES"]; visible != "" {
		names := strings.Split(visible, ",")
		if ordinal >= len(names) {
			return 0
		}
		name = strings.TrimSpace(names[ordinal])
	}
	_, err := strconv.Atoi(name)
	if err == nil && !alike && env["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" {
		return 0
	}
	for _, g := range gpus {
		if g.Index == name || err != nil && strings.HasPrefix(g.UUID, name) {
			return g.Capacity
		}
	}
	return 0
}

// environment returns variables that the process was started with.
func (p *Process) environment(names ...string) map[string]string {
	found := make(map[string]string)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		return found
	}
	for _, pair := range strings.Split(string(text), "\x00") {
		for _, name := range names {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				found[name] = value
			}
		}
	}
	return found
}
