package hostmem

import (
	"errors"
	"sync"
	"sync/atomic"
)

// threads fault pages in and pin them: the kernel zeroes pages more slowly than a link copies.
const threads = 8

// Parallel calls do with each of 0 to n-1, on several threads, until it fails.
func Parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(threads, n))
	var all sync.WaitGroup
	for t := range errs {
		all.Go(func() {
			for errs[t] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[t] = do(i)
			}
			next.Store(int64(n))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
