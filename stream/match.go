package stream

// nextAlloc returns the first allocation at or behind an entry, or the end.
func nextAlloc(entries []Entry, at uint32) uint32 {
	for entries[at].Size == 0 && entries[at].Slot != None {
		at++
	}
	return at
}
