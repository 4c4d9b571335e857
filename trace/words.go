package trace

// word is a string that means something in a snapshot. The unpickler keeps
// these by number and, unless Frames asks for stacks, forgets the text of all
// others, which are most of a snapshot: file names, function names, settings.
type word uint8

const (
	wordNone word = iota
	wordAction
	wordAddr
	wordSize
	wordStream
	wordTimeUs
	wordSegments
	wordDeviceTraces
	wordDevice
	wordAddress
	wordBlocks
	wordState
	wordRequestedSize
	wordFrames // from here on keys that only Frames asks for
	wordFilename
	wordName
	wordLine
	lastKey // words up to here are keys
	wordAlloc
	wordFreeRequested
	wordFreeCompleted
	wordActiveAllocated
	wordActivePendingFree
	wordActiveAwaitingFree
)

var wordTexts = [...]string{
	wordAction:             "action",
	wordAddr:               "addr",
	wordSize:               "size",
	wordStream:             "stream",
	wordTimeUs:             "time_us",
	wordSegments:           "segments",
	wordDeviceTraces:       "device_traces",
	wordDevice:             "device",
	wordAddress:            "address",
	wordBlocks:             "blocks",
	wordState:              "state",
	wordRequestedSize:      "requested_size",
	wordFrames:             "frames",
	wordFilename:           "filename",
	wordName:               "name",
	wordLine:               "line",
	wordAlloc:              "alloc",
	wordFreeRequested:      "free_requested",
	wordFreeCompleted:      "free_completed",
	wordActiveAllocated:    "active_allocated",
	wordActivePendingFree:  "active_pending_free",
	wordActiveAwaitingFree: "active_awaiting_free",
}

// longestWord bounds what has to be looked at of a string.
const longestWord = len("active_awaiting_free")

var wordOf = func() map[string]word {
	m := make(map[string]word)
	for w, text := range wordTexts {
		if text != "" {
			m[text] = word(w)
		}
	}
	return m
}()

func (w word) String() string { return wordTexts[w] }
