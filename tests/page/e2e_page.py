"""What the page shows of a known cluster, in a real browser."""

import msgspec
from playwright.sync_api import Browser, expect

from browser import tab
from holdfast.api.reports import DecisionRow, FailingController
from page_server import PageServer

BLOCK = "cr-00000005eb1c0ffee"
POD = "#/explain/pod/research/llm-pretrain-0"


def test_summary_has_idle_dollars_slots_nodes_and_pending_pods(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        text = opened.text("#tiles")
        assert "$128.48/h" in text
        assert "33 slots paid for and not used. Price unknown: 1 reservation." in text
        assert "$5,212.48" in text
        assert "27 of 179" in text
        assert "on-demand $5.39, spot $0.43" in text
        assert "2 launching, 2 draining" in text
        assert opened.text("#cluster") == "training-eu"


def lane(reservation: str) -> str:
    return f".lane:has(a.lane-id[data-key='{reservation}'])"


def test_lane_has_dates_slots_and_a_text_for_screen_readers(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        found = opened.page.locator(lane(BLOCK))
        kinds = {kind: found.locator(f".slots .slot.{kind}").count() for kind in ("here", "held", "free")}
        assert kinds == {"here": 6, "held": 1, "free": 1}
        assert found.locator(".cap").count() == 4  # start, drain, reclaim and end
        assert found.locator(".span.draining").count() == 1
        assert found.locator(".now").count() == 1
        assert found.locator("a.lane-id").get_attribute("aria-label") == (
            f"{BLOCK}. Capacity block of p5.48xlarge in eu-west-1a, open. 8 slots: 6 used here, 1 held, 1 free. "
            "1 slot idle, $31.46/h. Dates: drains in 2 d 5 h, EC2 reclaims in 2 d 5 h, ends in 2 d 5 h."
        )


def test_slots_name_their_nodes(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        slot = opened.page.locator(f"{lane(BLOCK)} a.slot.here").first
        slot.hover()
        assert opened.text("#tip") == "used here: ip-10-0-8-10.eu-west-1.compute.internal"
        slot.click()
        expect(opened.page.locator("#panel-title")).to_have_text("ip-10-0-8-10.eu-west-1.compute.internal")


def test_lanes_are_sorted_and_filtered(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        first = opened.page.locator(".lane[aria-posinset='1'] a.lane-id")
        expect(first).to_have_text("cr-0000000beef00beef")  # $60.13 an hour
        opened.page.select_option("#lane-sort", "ends")
        expect(first).to_have_text("cr-00000001d1e0000a1")  # EC2 reclaims it in ten minutes
        opened.page.fill("#lane-filter", "block eu-west-1a")
        expect(opened.page.locator("#lane-count")).to_have_text("2 of 7")
        opened.page.fill("#lane-filter", "nothing has this")
        expect(opened.page.locator("#lanes-note")).to_have_text("No reservation matches the filter.")


def test_axis_is_a_day_if_no_date_is_later(browser: Browser, server: PageServer, address: str) -> None:
    with tab(browser, address) as opened:
        expect(opened.page.locator("#lane-range input:checked")).to_have_value("604800")
        rows = server.documents.reservations
        server.documents.reservations = [row for row in rows if row.window == "draining"]
        server.publish()
        expect(opened.page.locator("#lane-range input:checked")).to_have_value("86400")
        opened.page.check("#lane-range input[value='2592000']")
        server.documents.reservations = rows
        server.publish()
        expect(opened.page.locator(".lane")).to_have_count(7)
        expect(opened.page.locator("#lane-range input:checked")).to_have_value("2592000")


def test_nodes_are_grouped_by_zone_and_pool_and_listed_in_pages(browser: Browser, address: str) -> None:
    with tab(browser, f"{address}#/nodes") as opened:
        page = opened.page
        row = page.locator("#groups tr", has_text="eu-west-1b")
        expect(row).to_contain_text("$2.70/h")
        page.check("input[value=nodePool]")
        expect(page.locator("#groups tr", has_text="batch")).to_contain_text("$1.80/h")
        expect(page.locator("#node-range")).to_have_text("1 to 25 of 40")
        page.click("#node-next")
        expect(page.locator("#node-range")).to_have_text("26 to 40 of 40")
        page.select_option("#node-capacity", "spot")
        expect(page.locator("#node-range")).to_have_text("1 to 3 of 3")
        page.fill("#node-search", "200-16")
        expect(page.locator("#node-list tbody tr")).to_have_count(1)
        page.click("#node-list tbody a")
        expect(page.locator("#panel-title")).to_have_text("ip-10-0-200-16.eu-west-1.compute.internal")


def test_pending_pods_are_grouped_by_reason(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        groups = opened.page.locator("#pending summary")
        expect(groups).to_have_count(3)
        expect(groups.first).to_contain_text("16")
        expect(groups.first).to_contain_text("the capacity block starts in 30 h")
        groups.first.click()
        opened.page.click("#pending a:has-text('research/llm-pretrain-0')")
        expect(opened.page.locator("#panel-title")).to_have_text("research/llm-pretrain-0")
        assert "Its new nodes cost $0.90/h; first fit alone would cost $2.70/h" in opened.text("#plan")


def test_gangs_have_their_state_their_pods_and_the_reason(
    browser: Browser, server: PageServer, address: str
) -> None:
    with tab(browser, address) as opened:
        items = opened.page.locator("#gangs li")
        expect(items).to_have_count(2)
        expect(items.first).to_contain_text(
            "research/job-llm-capacity-1 ProvisioningRequest, booked: 8 of 8 pods with capacity since 2 min ago"
        )
        expect(items.last).to_contain_text("PodGroup, waiting: 0 of 16 pods with capacity")
        expect(items.last.locator("p a")).to_have_text(BLOCK)  # the reservation of the reason
        opened.page.click("#gangs a:has-text('research/llm-pretrain')")
        expect(opened.page.locator("#panel-title")).to_have_text("research/llm-pretrain")
        expect(opened.page.locator("#panel .kind")).to_have_text("PodGroup")
        server.documents.gangs = []
        server.documents.status = msgspec.structs.replace(server.documents.status, gangs=0)
        server.publish()
        expect(opened.page.locator("#gangs")).to_be_empty()


def test_pod_links_to_its_podgroup_and_the_search_finds_it(browser: Browser, address: str) -> None:
    with tab(browser, address + POD) as opened:
        opened.page.click("#panel dd a:has-text('research/llm-pretrain')")
        expect(opened.page.locator("#panel .kind")).to_have_text("PodGroup")
        opened.page.fill("#search", "job-llm")
        opened.page.locator("#results .hit").first.click()
        expect(opened.page.locator("#panel .kind")).to_have_text("ProvisioningRequest")


def test_decision_opens_to_its_reasons_and_its_object(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        first = opened.page.locator("#feed > li").first
        expect(first.locator(".body")).to_be_hidden()
        first.locator("summary").click()
        expect(first.locator(".body")).to_contain_text(
            "Spot c7i.4xlarge in eu-west-1b would cost $0.31 an hour."
        )
        first.get_by_text("Explain it").click()
        expect(opened.page.locator("#panel-title")).to_have_text("general-7a7a14")
        opened.page.fill("#decision-filter", "refused")
        expect(opened.page.locator("#feed > li")).to_have_count(1)


def test_search_opens_an_explanation_with_its_own_address(browser: Browser, address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.keyboard.press("/")
        page.keyboard.type("llm-pretrain-")
        expect(page.locator("#results [role=option]")).to_have_count(5)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.locator("#panel-title")).to_have_text("research/llm-pretrain-0")
        assert page.url == f"{address}{POD}"
        page.go_back()
        expect(page.locator("#panel")).to_be_hidden()


def test_explanation_has_every_part(browser: Browser, address: str) -> None:
    with tab(browser, f"{address}{POD}") as opened:
        expect(opened.page.locator("#panel .what")).to_contain_text("The pod waits for a slot")
        titles = opened.page.locator("#panel h3").all_inner_texts()
        assert titles == [
            "Why",
            "What was considered, and why it was not used",
            "What would change it",
            "Next",
            "Facts",
        ]
        opened.page.click(f"#panel a:has-text('{BLOCK}') >> nth=0")  # reservation ids in sentences are links
        expect(opened.page.locator("#panel-title")).to_have_text(BLOCK)
        expect(opened.page.locator("#panel tbody tr")).to_have_count(7)  # its slots


def test_explanation_of_a_deleted_object_is_plain(browser: Browser, address: str) -> None:
    with tab(browser, f"{address}#/explain/pod/web/gone") as opened:
        expect(opened.page.locator("#panel .what")).to_contain_text(
            "There is no such Pod, or it was deleted."
        )


def test_update_arrives_without_a_reload(browser: Browser, server: PageServer, address: str) -> None:
    with tab(browser, address) as opened:
        documents = server.documents
        documents.status = msgspec.structs.replace(documents.status, pending=4711)
        documents.reservations = [
            msgspec.structs.replace(row, here=7, held=0, free=0, idle=0, elsewhere=1)
            if row.id == BLOCK
            else row
            for row in documents.reservations
        ]
        row = DecisionRow(
            id=8, at=documents.at, type="launched", kind="NodeClaim", name="new", text="Launched x"
        )
        documents.decisions = [row, *documents.decisions]
        server.publish()
        expect(opened.page.locator("#tiles")).to_contain_text("4,711")
        expect(opened.page.locator(f"{lane(BLOCK)} .slot.elsewhere")).to_have_count(1)
        expect(opened.page.locator("#feed > li").first).to_contain_text("Launched x")
        expect(opened.page.locator("#feed > li")).to_have_count(8)


def test_decisions_of_a_new_leader_replace_the_old_ones(
    browser: Browser, server: PageServer, address: str
) -> None:
    with tab(browser, address) as opened:
        at = server.documents.at
        row = DecisionRow(id=1, at=at, type="launch", kind="NodeClaim", name="new", text="The first decision")
        server.documents.decisions = [row]
        server.publish()
        expect(opened.page.locator("#feed > li")).to_have_count(1)


def test_page_shows_since_when_it_is_not_connected_and_connects_again(
    browser: Browser, server: PageServer, address: str
) -> None:
    with tab(browser, address) as opened:
        server.refuse = True
        server.disconnect()
        expect(opened.page.locator("#live")).to_contain_text("Not connected since")
        documents = server.documents
        documents.status = msgspec.structs.replace(documents.status, pending=77)
        server.version += 1
        server.refuse = False
        expect(opened.page.locator("#live")).to_have_text("Live")
        expect(opened.page.locator("#tiles")).to_contain_text("77")


def test_hidden_tab_has_no_stream_and_is_current_when_it_is_shown(
    browser: Browser, server: PageServer, address: str
) -> None:
    hide = """hidden => {
      Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with tab(browser, address) as opened:
        opened.page.evaluate(hide, True)
        server.documents.status = msgspec.structs.replace(server.documents.status, pending=505)
        server.publish()
        opened.page.wait_for_timeout(500)
        assert "505" not in opened.text("#tiles")
        opened.page.evaluate(hide, False)
        expect(opened.page.locator("#tiles")).to_contain_text("505")
        expect(opened.page.locator("#live")).to_have_text("Live")


def test_page_opens_while_no_replica_leads(browser: Browser, server: PageServer, address: str) -> None:
    server.refuse = True
    with tab(browser, address, ready=False) as opened:
        expect(opened.page.locator("#live")).to_contain_text("Not connected since")
        server.refuse = False
        expect(opened.page.locator("#live")).to_have_text("Live")
        expect(opened.page.locator(".lane")).to_have_count(7)


def test_problems_are_on_top(browser: Browser, server: PageServer, address: str) -> None:
    stuck = FailingController(
        controller="nodeclaim.lifecycle", keys=("general-1",), key_count=3, problem="no progress for 10 min"
    )
    server.documents.status = msgspec.structs.replace(
        server.documents.status, problem="the cache of Pods is not read yet", failing=(stuck,)
    )
    with tab(browser, address) as opened:
        text = opened.text("#problems")
        assert "Not ready: the cache of Pods is not read yet" in text
        assert "no progress for 10 min; the last reconcile of 3 keys failed" in text
        assert "and 2 more" in opened.text("#failing")
        about = opened.text("#about")
        assert "holdfast-7f9c5d8b6-k2m4x" in about
        assert "0.9.0" in about


def test_clock_of_the_page_is_as_fast_as_that_of_the_documents(
    browser: Browser, server: PageServer, address: str
) -> None:
    with tab(browser, address) as opened:
        newest = opened.page.locator("#feed time").first
        expect(newest).to_contain_text("s ago")
        for _ in range(6):  # the demo: a minute in a second
            opened.page.wait_for_timeout(1000)
            status = server.documents.status
            server.documents.status = msgspec.structs.replace(status, at=status.at + 60)
            server.documents.at += 60
            server.publish(reservations=False)
        opened.page.wait_for_timeout(3000)
        minutes = int(newest.inner_text().split(" ")[0])
        assert minutes >= 8  # six minutes in documents, and about three since the last one


def test_page_works_below_a_proxy_path(browser: Browser, server: PageServer) -> None:
    prefix = "/api/v1/namespaces/kube-system/services/holdfast:http-api/proxy"
    with server.running(prefix=prefix) as address, tab(browser, f"{address}{POD}") as opened:
        expect(opened.page.locator("#panel .what")).to_contain_text("The pod waits for a slot")
        assert all(one.startswith(address) for one in opened.addresses)


def test_colours_follow_the_system_and_the_switch(browser: Browser, address: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, address, scheme="dark") as opened:
        page = opened.page
        assert page.evaluate(colour) == "rgb(13, 18, 24)"
        page.click("#theme")
        assert page.evaluate(colour) == "rgb(244, 246, 248)"
        page.reload()
        assert page.evaluate(colour) == "rgb(244, 246, 248)"
        page.click("#theme")
        assert page.get_attribute("#theme", "aria-label") == "Colours: dark"


def test_keyboard_alone_is_enough(browser: Browser, address: str) -> None:
    focused = "document.activeElement.id || document.activeElement.textContent"
    with tab(browser, address) as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate(focused) == "main"
        page.focus(".lane[aria-posinset='1'] a.lane-id")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused) == "cr-0000000c0dec0de01"
        page.wait_for_selector("a.slot")  # nodes are read after the lanes are drawn
        page.keyboard.press("ArrowRight")  # its first slot
        assert opened.text("#tip") == "used here: ip-10-0-5-10.eu-west-1.compute.internal"
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        expect(page.locator("#panel .what")).to_be_visible()
        assert page.evaluate(focused) == "panel-title"
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        assert page.evaluate("document.activeElement.className") == "lane-id"


def test_update_keeps_focus_and_open_groups(browser: Browser, server: PageServer, address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.locator("#pending summary").first.click()
        page.focus("#pending a >> nth=1")
        groups = server.documents.pending
        server.documents.pending = [msgspec.structs.replace(groups[0], pods=99), *groups[1:]]
        server.documents.status = msgspec.structs.replace(server.documents.status, pending=104)
        server.publish()
        expect(page.locator("#pending .n").first).to_have_text("99")
        assert page.evaluate("document.activeElement.textContent") == "research/llm-pretrain-1"
