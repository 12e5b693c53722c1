package states

import "slices"

// Find returns the state of a key. ErrMiss says in which field of the identity a stored one of this name and these tokens differs.
func (s *Store) Find(k Key) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return Info{}, ErrClosed
	}
	if err := s.expire(); err != nil {
		return Info{}, failed("find", err)
	}
	if st := s.states[s.names.id(&k)]; st != nil {
		return st.Info, nil
	}
	return Info{}, s.miss(k.Identity, func(list []*state) bool {
		return slices.ContainsFunc(list, func(st *state) bool {
			return st.Key.Name == k.Name && slices.Equal(st.Key.Tokens, k.Tokens)
		})
	})
}

// Nearest returns the state of an identity that has the most tokens in common with the beginning of a prompt, and how many these are, at
// least one. A state that has more tokens than that is to be cut by the engine; of several states that save as much, one that is not is
// returned if there is one. A runner that needs the logits of the last token of a prompt leaves it out. ErrMiss is that there is none.
func (s *Store) Nearest(i Identity, tokens []uint32) (Info, int, error) {
	return s.near(i, tokens, nearest)
}

// NearestWhole is Nearest among the states all of whose tokens begin the prompt: for engines that cannot cut a state, such as those with
// recurrent layers.
func (s *Store) NearestWhole(i Identity, tokens []uint32) (Info, int, error) {
	return s.near(i, tokens, nearestWhole)
}

func (s *Store) near(i Identity, tokens []uint32, search func([]*state, []uint32) (*state, int)) (Info, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return Info{}, 0, ErrClosed
	}
	if err := s.expire(); err != nil {
		return Info{}, 0, failed("find", err)
	}
	if st, n := search(s.index[i], tokens); st != nil {
		return st.Info, n, nil
	}
	return Info{}, 0, s.miss(i, func(list []*state) bool {
		st, _ := search(list, tokens)
		return st != nil
	})
}

// miss is ErrMiss with the field in which the identity differs from the one that is most like it and has what was asked for. Other salts are not
// looked at: what they have is not told. The caller has the lock.
func (s *Store) miss(want Identity, has func([]*state) bool) error {
	s.stats.Missed++
	var out ErrMiss
	fewest := len(want.fields()) + 1
	for have, list := range s.index {
		if have.Salt != want.Salt || have == want {
			continue
		}
		n, first := 0, ErrMiss{}
		a, b := have.fields(), want.fields()
		for i := range a {
			if a[i].value != b[i].value {
				if n++; n == 1 {
					first = ErrMiss{a[i].name, a[i].value, b[i].value}
				}
			}
		}
		if (n < fewest || n == fewest && first.Have < out.Have) && has(list) {
			out, fewest = first, n
		}
	}
	return out
}

// List returns all states, in the order of their last use, the latest first.
func (s *Store) List() ([]Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return nil, ErrClosed
	}
	if err := s.expire(); err != nil {
		return nil, failed("list", err)
	}
	out := make([]Info, 0, len(s.states))
	for _, st := range s.states {
		out = append(out, st.Info)
	}
	slices.SortFunc(out, func(a, b Info) int {
		if c := b.Used.Compare(a.Used); c != 0 {
			return c
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return out, nil
}
