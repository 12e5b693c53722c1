// Package tiertest is the conformance suite of package tier. One call,
//
//	func TestConformance(t *testing.T) {
//		tiertest.Run(t, func(t *testing.T, o tiertest.Options) tier.Tier {
//			mine, err := mytier.Open(o.Dir, o.Bytes)
//			require.NoError(t, err)
//			return mine
//		})
//	}
//
// checks every sentence of the contract that can be observed from outside. The tier is opened to take what it is given: a
// filter of admission that declines blocks although there is room is off. Open is called some hundred times; the suite closes
// what it returns.
//
// A payload is a function of its key and its length, so that content under a wrong key is seen wherever it comes from:
// from a buffer that its owner used again, from a slot whose block was given up while it was read, from a file of an
// earlier process. Random histories are compared with a naive model. A tier may have given up any block at any time; it may
// not return other bytes, find what was forgotten, or disagree with its own Stats.
//
// A tier need not check what it keeps, only keep its sum: what it returns is compared with that above all tiers.
//
// What needs a fault below the tier (a full disk, a flipped bit, a process that is killed) is up to the tier's own tests.
package tiertest
