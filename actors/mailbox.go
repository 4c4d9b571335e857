package actors

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is the mailbox of the actors that run on their senders' threads. The
// first sender becomes the worker: it runs its own message at once, without
// queueing it, and then works off what others have queued meanwhile. protoactor's
// own mailbox queues every message and makes a function value for every send, which
// together cost more than serving the request.
//
//	invariant: at most one thread is between take and leave, and only it invokes
type mailbox struct {
	working   atomic.Bool
	waiting   atomic.Int32 // messages queued, of both kinds
	suspended atomic.Bool  // only system messages are invoked
	invoker   actor.MessageInvoker

	mu     sync.Mutex
	user   queue
	system queue
}

// queue is a first-in first-out queue that keeps its memory.
type queue struct {
	items []any
	head  int
}

func (q *queue) push(m any) { q.items = append(q.items, m) }

func (q *queue) pop() (m any) {
	if q.head == len(q.items) {
		return nil
	}
	m = q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return m
}

// RegisterHandlers implements actor.Mailbox. The dispatcher has nothing to do.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

// Start implements actor.Mailbox.
func (m *mailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user.items) - m.user.head
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	if m.waiting.Load() == 0 && !m.suspended.Load() && m.take() {
		if m.waiting.Load() == 0 && !m.suspended.Load() {
			m.invoke(message, false)
			m.work()
			return
		}
		m.queue(&m.user, message)
		m.work()
		return
	}
	m.queue(&m.user, message)
	if m.take() {
		m.work()
	}
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	m.queue(&m.system, message)
	if m.take() {
		m.work()
	}
}

func (m *mailbox) take() bool { return m.working.CompareAndSwap(false, true) }

func (m *mailbox) queue(q *queue, message any) {
	m.mu.Lock()
	q.push(message)
	m.waiting.Add(1)
	m.mu.Unlock()
}

// work invokes what is queued and leaves. A message queued after the last look and
// before leaving found the worker still there, so the look is repeated.
func (m *mailbox) work() {
	for {
		for {
			message, system := m.next()
			if message == nil {
				break
			}
			m.invoke(message, system)
		}
		m.working.Store(false)
		if !m.due() || !m.take() {
			return
		}
	}
}

// next takes the message that is due, system messages first.
func (m *mailbox) next() (message any, system bool) {
	if m.waiting.Load() == 0 {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if message = m.system.pop(); message != nil {
		system = true
	} else if !m.suspended.Load() {
		message = m.user.pop()
	}
	if message != nil {
		m.waiting.Add(-1)
	}
	return message, system
}

// due reports whether something is queued that may be invoked.
func (m *mailbox) due() bool {
	if m.waiting.Load() == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.system.head < len(m.system.items) || !m.suspended.Load() && m.user.head < len(m.user.items)
}

// invoke hands a message to the actor. A panic goes to its supervisor, as in
// protoactor's own mailbox.
func (m *mailbox) invoke(message any, system bool) {
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, message)
		}
	}()
	if !system {
		m.invoker.InvokeUserMessage(message)
		return
	}
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended.Store(true)
	case *actor.ResumeMailbox:
		m.suspended.Store(false)
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}
