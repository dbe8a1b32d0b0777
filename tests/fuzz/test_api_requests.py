"""A thousand malformed requests to the embedded API server; `make fuzz-api` sends ten thousand."""

import asyncio

import malformed

COUNT = 1000


def test_malformed_requests_are_refused_and_do_not_break_the_server() -> None:
    async def run() -> None:
        server = await malformed.server()
        refused = 0
        for seed in range(1, COUNT + 1):
            case = malformed.case(seed)
            verdict = await malformed.check_case(server, case)
            assert verdict.problem == "", (seed, verdict, str(case.request)[:500])
            refused += 400 <= verdict.status < 500
        assert refused > COUNT * 0.7

    asyncio.run(run())
