package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"stalloc/internal/mem"
	"stalloc/replay"
)

// scoreTable has a row for each recording, and what the average of shares is.
type scoreTable struct {
	smallest bool
	t        table.Writer
	n        int
	waste    float64 // the sum
}

func (w *scoreTable) add(r replay.Result) {
	if w.t == nil {
		header := []any{"recording", "peak load", "reserved", "waste"}
		if w.smallest {
			header = append(header, "fits in", "at full speed in")
		}
		w.t = newTable(1, header...)
	}
	cells := table.Row{r.Trace, r.PeakLoad, r.PeakReserved, percent(r.Fragmentation)}
	if r.OOM {
		cells = table.Row{r.Trace, r.PeakLoad, "full", "-"}
	}
	if w.smallest {
		cells = append(cells, deviceSize(r.FitsIn), deviceSize(r.FullSpeedIn))
	}
	w.t.AppendRow(cells)
	if r.OOM {
		return
	}
	if w.n++; w.n > 1 {
		w.t.ResetFooters()
	}
	if w.waste += r.Fragmentation; w.n > 1 {
		w.t.AppendFooter(table.Row{fmt.Sprintf("average of %d", w.n), "", "",
			percent(w.waste / float64(w.n))})
	}
}

// deviceSize is a device's memory; a dash where there is no figure.
func deviceSize(n mem.Bytes) string {
	if n == 0 {
		return "-"
	}
	return n.Up().String()
}
