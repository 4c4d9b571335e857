package score

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"stalloc/replay"
	"stalloc/trace"
)

// simulate is this test's binary as a simulator: of one of the allocators, or a hostile one.
func simulate(kind, recording string) error {
	if a, err := replay.Lookup(kind); err == nil {
		tr, err := trace.ReadFile(recording)
		if err != nil {
			return err
		}
		return Answer(context.Background(), os.Stdin, os.Stdout, tr, a,
			replay.Config{FragLimit: replay.DefaultFragLimit})
	}
	switch kind {
	case "dies":
		return fmt.Errorf("cannot go on")
	case "hangs":
		time.Sleep(time.Minute)
	case "closes":
		_ = os.Stdout.Close()
		time.Sleep(time.Minute)
	case "noisy":
		for range 10_000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 100))
		}
		return fmt.Errorf("noise")
	}
	return hostile(kind)
}

// answers are what hostile simulators say to a boundary, and to the first and the second request;
// where there is less, what comes before it is said again.
var answers = map[string][]string{
	"garbage":  {"\x00\xff what?"},
	"endless":  {strings.Repeat("x", 1<<20)},
	"overlaps": {"0", "0,2097152"},
	"odd":      {"0", "100,2097152"},
	"high":     {"0", "9223372036854775296,2097152", "9223372036854775296,2097152"},
	"negative": {"0", "-512,2097152"},
	"huge":     {"0", "99999999999999999999,2097152"},
	"short":    {"0", "0,2097151"},
	"stitched": {"0", "0,511"},
	"greedy":   {"0", "0,67108865"},
	"waits":    {"0", "w,0"},
	"falls":    {"4194304", "0,4194304", "512,2097152"},
}

// hostile answers as its kind does, and where that has no answers, well.
func hostile(kind string) error {
	says, ok := answers[kind]
	if !ok {
		says = []string{"4194304", "0,4194304", "4096,4194304"}
	}
	asked := 0
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := in.Text()
		say := says[0]
		switch {
		case strings.HasPrefix(line, "a,"):
			asked++
			say = says[min(asked, len(says)-1)]
		case line != "q" && line != "# end" && !strings.HasPrefix(line, "# step"):
			continue
		}
		switch {
		case kind == "late":
			time.Sleep(time.Minute)
		case kind == "deaf" && asked == 2:
			fmt.Println(say)
			time.Sleep(time.Minute)
		case kind == "cut":
			fmt.Print("12")
			return nil
		case kind == "chatty" && line == "q":
			say += "\nand more"
		}
		if fmt.Println(say); line == "q" && kind == "stays" {
			time.Sleep(time.Minute)
		} else if line == "q" && kind == "fails" {
			return fmt.Errorf("on second thoughts")
		}
	}
	return in.Err()
}
