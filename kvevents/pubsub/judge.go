// What a live message is: the next one, one that a replay has had, one after a gap, or one of another epoch.
//
// On one connection, sequence numbers rise while an epoch lasts, and fall when another begins. A replay may have gone ahead of the connection, into
// another epoch even, and the connection ahead of what was returned. Numbers alone do not tell these cases apart; hashes of payloads do.

package pubsub

import "time"

// judge returns the message that is held, or drops it, or asks for a replay first.
func (s *Subscriber) judge() (Message, bool) {
	l := &s.live
	fell := l.heard && l.sequence <= l.last
	if fell && l.asked == 0 {
		l.state = unknown
	}
	if l.met || s.seen.same(l.sequence, l.payload) { // it was returned
		l.state = same
		return s.skip()
	}
	if l.state == same {
		switch {
		case l.sequence < s.next:
			return s.skip()
		case l.sequence > s.next && l.asked == 0 && s.canAsk():
			s.asking.want = later
			return Message{}, false
		}
		return s.take(false)
	}
	if l.state == stale {
		if l.skips++; l.skips < l.check {
			return s.skip()
		}
		l.skips, l.check, l.state = 0, 2*l.check, unknown // in case the first message of an epoch was dropped
	}
	switch {
	case fell && l.sequence == 0 && l.asked == 0: // a new epoch from its beginning
		s.startOver()
		return s.take(false)
	case l.asked > 0 && s.asking.sure: // the publisher's epoch is that of what was returned, and has not got this message
		if l.sequence >= s.next && l.asked == 1 && s.canAsk() { // unless its replays lag
			s.asking.want, s.asking.at = later, time.Now().Add(20*time.Millisecond)
			return Message{}, false
		}
		l.state = stale
		return s.skip()
	case l.asked == 0 && s.canAsk():
		s.asking.want = s.missing()
		return Message{}, false
	case l.sequence == 0:
		s.startOver()
	}
	return s.take(true)
}

// take returns the message that is held. unsure: nothing says that it follows what was returned.
func (s *Subscriber) take(unsure bool) (Message, bool) {
	l := &s.live
	l.state = same
	dead := s.o.Replay != "" && (l.asked == 0 || !s.asking.sure)
	m := s.message(l.topic, l.sequence, l.payload, unsure, dead)
	s.skip()
	return m, true
}

// skip is done with the message that is held.
func (s *Subscriber) skip() (Message, bool) {
	l := &s.live
	l.held, l.heard, l.last = false, true, l.sequence
	l.idleAt = time.Now().Add(l.idle)
	return Message{}, false
}
