package onerange

type Counters struct{ Clock uint64 }
type Lent struct{ Counters }

func (e *Engine) Lend(*Lent) bool    { return false }
func (e *Engine) TakeBack(*Counters) {}
