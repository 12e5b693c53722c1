package planner

import "time"

// Observe is told of a load that ended: how many bytes of one tier, and how long it took. tier.MoverOptions.Observe tells all of it but the time that it is.
func (p *Planner) Observe(tier int, bytes int64, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.tier(tier); e != nil && bytes > 0 && took >= 0 {
		e.observe(bytes, took, now)
	}
}

// Late is told of a load that was cancelled after a while. It would have taken longer: twice that is assumed.
func (p *Planner) Late(tier int, bytes int64, waited time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.GivenUp++
	if e := p.tier(tier); e != nil && bytes > 0 && waited > 0 {
		e.observe(bytes, max(duration(2*waited.Seconds()), duration(e.seconds(bytes))), now)
	}
}

// Prefilled is told of what the runner computed: tokens after a context.
func (p *Planner) Prefilled(context, tokens int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if context >= 0 && tokens > 0 && took >= 0 {
		p.compute.observe(context, tokens, took)
	}
}

// Patience is how long a prompt may be waited for before anything of it is there, whose tokens behind a context tiers may have; 0: how
// fast the runner computes is not known.
func (p *Planner) Patience(context, tokens int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if context < 0 || tokens <= 0 {
		return 0
	}
	return duration(slack * float64(tokens) * p.compute.perToken(plus(context, tokens/2)))
}

// Ended is told how long a prompt took, from the first decision on until its blocks were there, and what computing them all was expected
// to take.
func (p *Planner) Ended(took, computing time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took < 0 || computing < 0 {
		return
	}
	if took > computing {
		p.stats.Regret += took - computing
	} else {
		p.stats.Saved += computing - took
	}
}

// Stats returns the counters.
func (p *Planner) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
