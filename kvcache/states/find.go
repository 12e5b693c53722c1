package states

import "slices"

// Find returns the state of a key, of which identity, name and all tokens must match. If there is none, it returns ErrMiss, which names the field of
// the identity in which a stored state with this name and these tokens differs.
func (s *Store) Find(k Key) (Info, error) {
	if err := s.enter(); err != nil {
		return Info{}, err
	}
	defer s.leave()
	id := s.names.id(&k) // which takes time by the tokens
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.states[id]; st != nil {
		return st.Info, nil
	}
	return Info{}, s.miss(k.Identity, func(root *node) bool { return root.has(k.Name, k.Tokens) })
}

// Nearest returns the state of an identity that has the longest prefix in common with the tokens of a prompt, and the length of that prefix in
// tokens, which is at least 1. If the state has more tokens than that, the engine has to cut it. Of several states with the same common prefix,
// Nearest prefers one that need not be cut. A runner that needs the logits of the last token of the prompt leaves that token out. Nearest ignores
// Key.Name. It returns ErrMiss if no state begins with the prompt's first token.
func (s *Store) Nearest(i Identity, tokens []uint32) (Info, int, error) {
	return s.near(i, tokens, (*node).nearest)
}

// NearestWhole is like Nearest, but considers only states all of whose tokens are a prefix of the prompt. It is for engines that cannot cut a state,
// such as those with recurrent layers.
func (s *Store) NearestWhole(i Identity, tokens []uint32) (Info, int, error) {
	return s.near(i, tokens, (*node).nearestWhole)
}

func (s *Store) near(i Identity, tokens []uint32, search func(*node, []uint32) (*state, int)) (Info, int, error) {
	if err := s.enter(); err != nil {
		return Info{}, 0, err
	}
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, n := search(s.index[i], tokens); st != nil {
		return st.Info, n, nil
	}
	return Info{}, 0, s.miss(i, func(root *node) bool {
		st, _ := search(root, tokens)
		return st != nil
	})
}

// miss is ErrMiss with the field in which the identity differs from the one that is most like it and has what was asked for. Other salts are not
// looked at: what they have is not told. The caller has the lock.
func (s *Store) miss(want Identity, has func(*node) bool) error {
	s.stats.Missed++
	var out ErrMiss
	fewest := len(want.fields()) + 1
	for have, root := range s.index {
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
		if (n < fewest || n == fewest && first.Have < out.Have) && has(root) {
			out, fewest = first, n
		}
	}
	return out
}

// List returns all states, the most recently used first.
func (s *Store) List() ([]Info, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
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
