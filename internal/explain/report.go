package explain

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Report is what is written to a file when memory runs out: the text for people, all of it,
// and the figures as one line of JSON for programs. head is its first line: what run this
// was, and when.
func (f *Figures) Report(head string) []byte {
	figures, err := json.Marshal(f)
	if err != nil {
		figures = []byte(strconv.Quote(err.Error())) // no figure can be the cause
	}
	return []byte(head + "\n\n" + f.Refusal() + "\n" + string(figures) + "\n")
}

// ReportPath is where a process writes its report: %p in the name is its number, %r its rank
// among the processes of a run, %d the device's ordinal, so that none overwrites another's.
func ReportPath(name, rank string, pid, device int) string {
	if rank == "" {
		rank = "0"
	}
	return strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid), "%r", rank, "%d",
		strconv.Itoa(device)).Replace(name)
}
