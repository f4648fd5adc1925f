"""``ninelives chaos``: its report on environments that heal, that are not deterministic, or that are broken."""

FEW = ("--kills", "4", "--hangs", "1", "--segfaults", "2", "--steps", "400", "--num-envs", "4")
NONE = ("--kills", "0", "--hangs", "0", "--segfaults", "0", "--steps", "200", "--num-envs", "2")


def test_an_environment_that_can_be_healed_is_called_safe(ninelives):
    done = ninelives("chaos", "game:Calm", "--env-kwargs", "size=5", *FEW)
    assert (done.code, done.err) == (0, "")
    assert "4 of 4 kills, 1 of 1 hang, 2 of 2 segfaults" in done.out
    assert "2 SIGSEGV" in done.out
    assert "healed; median" in done.out
    assert "safe: after 7 injected faults, all" in done.out
    assert "game:Calm heals exactly" in done.out


def test_first_ready_batches_and_other_start_methods_can_be_chosen(ninelives):
    done = ninelives(
        "chaos", "CartPole-v1", *FEW, "--batch-size", "2", "--start-method", "fork", "--snapshot-every", "0"
    )
    assert (done.code, done.err) == (0, "")
    assert "safe:" in done.out


def test_an_environment_that_is_not_deterministic_is_reported_with_the_place(ninelives):
    done = ninelives("chaos", "game:Moody", *NONE)
    assert done.code == 1
    assert "not deterministic: first difference in slot" in done.out
    assert "at step 1: obs[0]" in done.out
    assert "two plain runs of the environment differ" in done.out
    assert "`ninelives check game:Moody`" in done.out


def test_a_run_without_faults_says_that_it_proves_nothing_about_healing(ninelives):
    done = ninelives("chaos", "game:Calm", *NONE)
    assert (done.code, done.err) == (0, "")
    assert "no fault was injected" in done.out


def test_an_environment_that_breaks_without_being_touched_shows_its_own_error(ninelives):
    done = ninelives("chaos", "game:Fatal", *NONE)
    assert done.code == 1
    assert "killed by SIGSEGV" in done.err
    assert "game.py" in done.err


def test_names_and_counts_that_cannot_be_are_usage_errors(ninelives):
    assert "is not an environment" in ninelives("chaos", "what?").err
    done = ninelives("chaos", "game:Calm", "--kills", "-1")
    assert done.code == 2
    assert "kills=-1 must not be negative" in done.err
