package recipes_test

const pausedHolderEnv = "BATON_TEST_PAUSED_HOLDER"

func pausedHolder(string) int { return 2 }
