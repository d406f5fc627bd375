"""Hand a task to the agent and print its answer, with whatever model this machine has."""

from deerflow import Agent

if __name__ == "__main__":
    result = Agent().run_sync("How much is 6 times 7?")
    print(result.status, "-", result.text)
