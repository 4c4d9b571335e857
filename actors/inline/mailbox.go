package inline

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox runs an actor on its senders' threads (package documentation). protoactor's own queues
// every message and makes a function value for every send, which together cost more than serving
// the request.
//
// Unlike protoactor's own it holds nothing back between a failure and the restart after it: the
// restarted actor is the same one, and has recovered by itself.
//
//	invariant: while working, one thread is in work, and only it invokes
type mailbox struct {
	invoker actor.MessageInvoker

	mu      sync.Mutex
	working bool
	queue   []posted // the oldest first
	head    int      // of those that are not invoked yet
}

type posted struct {
	message any
	system  bool
}

// RegisterHandlers implements actor.Mailbox. The dispatcher has nothing to do.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

func (m *mailbox) Start() {}

// UserMessageCount implements actor.Mailbox. It is for protoactor's metrics, which are off.
func (m *mailbox) UserMessageCount() int { return 0 }

func (m *mailbox) PostUserMessage(message any)   { m.post(posted{message, false}) }
func (m *mailbox) PostSystemMessage(message any) { m.post(posted{message, true}) }

func (m *mailbox) post(p posted) {
	m.mu.Lock()
	if m.working {
		// where it is never empty it would keep the room of all that were invoked
		if m.head > len(m.queue)/2 {
			m.queue, m.head = slices.Delete(m.queue, 0, m.head), 0
		}
		m.queue = append(m.queue, p)
		m.mu.Unlock()
		return
	}
	m.working = true
	m.mu.Unlock()
	for more := true; more; p, more = m.next() {
		m.invoke(p)
	}
}

// next takes the oldest message. Where there is none the worker leaves.
func (m *mailbox) next() (p posted, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head == len(m.queue) {
		m.queue, m.head, m.working = m.queue[:0], 0, false
		return p, false
	}
	p, m.queue[m.head] = m.queue[m.head], posted{}
	m.head++
	return p, true
}

// invoke hands a message to the actor. A panic goes to its supervisor, as in
// protoactor's own mailbox.
func (m *mailbox) invoke(p posted) {
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, p.message)
		}
	}()
	switch p.message.(type) {
	case *actor.SuspendMailbox, *actor.ResumeMailbox:
		return
	}
	if p.system {
		m.invoker.InvokeSystemMessage(p.message)
	} else {
		m.invoker.InvokeUserMessage(p.message)
	}
}
