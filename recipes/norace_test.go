//go:build !race

package recipes

// UnderRace says that the race detector is on.
const UnderRace = false
