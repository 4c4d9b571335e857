package residency

import "stalloc/internal/mem"

// all returns the waits for copies either way, by moment.
func (s *schedule) all() (waits []Wait) {
	next, sum := 0, Nanos(0)
	for k := 1; k < len(s.times); k++ {
		d := s.at[k] - s.at[k-1] - (s.times[k] - s.times[k-1])
		for ; next < len(s.waits) && s.waits[next].moment == int32(k); next++ {
			d += s.waits[next].sum - sum
			sum = s.waits[next].sum
		}
		if d > 0 {
			waits = append(waits, Wait{s.times[k], d})
		}
	}
	return waits
}

// plan writes the schedule down.
func (s *schedule) plan() Plan {
	p := Plan{Waits: s.all()}
	for _, w := range p.Waits {
		p.Wait += w.For
	}
	for _, i := range s.leave {
		if s.out[i] == absent {
			continue
		}
		x := &s.parts[i]
		from := s.out[i] + s.shiftAt(s.out[i])
		p.Moves = append(p.Moves, Move{int(x.item), x.offset, x.size, from, from + x.out,
			s.returned[i], s.returned[i] + x.back})
		p.Left += x.size
	}
	p.Peak = s.peak(&p)
	return p
}

// peak is the highest load of a plan: a merge of what ends, of the moments, and of what returns.
func (s *schedule) peak(p *Plan) (most mem.Bytes) {
	away, delay, wait, out, back := mem.Bytes(0), Nanos(0), 0, 0, 0
	// pass goes on to a time. Only what returns makes the load higher.
	pass := func(until Nanos, total mem.Bytes) {
		for {
			for back < len(s.come) && s.out[s.come[back]] == absent {
				back++
			}
			next := until
			if back < len(s.come) {
				next = min(next, s.returned[s.come[back]])
			}
			for ; out < len(p.Moves) && p.Moves[out].OutUntil <= next; out++ {
				away += p.Moves[out].Size
			}
			if next == until {
				return
			}
			away -= s.parts[s.come[back]].size
			back++
			most = max(most, total-away)
		}
	}
	total := mem.Bytes(0)
	for k, t := range s.times {
		for ; wait < len(p.Waits) && p.Waits[wait].At <= t; wait++ {
			delay += p.Waits[wait].For
		}
		pass(t+delay, total)
		total = s.total[k]
		most = max(most, total-away)
	}
	return most
}
