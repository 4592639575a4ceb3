"""Observe, plan, apply and report on the one host it runs on."""
