package framework

import "sync"

// A mailbox hands values to one function, in order, on a goroutine that lives
// only while there is something to hand over. It has no bound: a slow function
// delays itself only, and loses nothing.
type mailbox[T any] struct {
	f     func(T)
	spawn func(func()) bool // called with the lock held, as put is with core.mu held

	mu      sync.Mutex
	queue   []T
	running bool
	closed  bool
}

// put is called with core.mu held, so that all mailboxes get the same order.
func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.queue = append(m.queue, v)
	if !m.running {
		m.running = m.spawn(m.drain)
	}
}

func (m *mailbox[T]) drain() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 || m.closed {
			m.running = false
			m.queue = nil
			m.mu.Unlock()
			return
		}
		v := m.queue[0]
		m.queue = m.queue[1:]
		m.mu.Unlock()
		m.f(v)
	}
}

// close drops what was not handed over yet.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.queue = nil
}
